"""The report as a file: one page, nothing from outside, names that stay names, figures that are those of the run."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from fields.variables import STATE_VARIABLES
from reported_run import HOSTILE, reported_run, reported_view
from stationpde.api import StationPDE
from stationpde.errors import UsageError
from stationpde.evaluation.cells import commit
from stationpde.evaluation.metrics import scores_by
from stationpde.report import build_run_view, check_page, page
from stationpde.report.view import OURS


class Elements(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def html() -> str:
    return page(reported_view())


@pytest.fixture(scope="module")
def content(html) -> dict:
    return json.loads(re.search(r'id="content">(.*?)</script>', html, re.DOTALL)[1])


def unpacked(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def test_the_page_refers_to_nothing_outside_itself(html):
    for tag, attributes in Elements(html).tags:
        assert "src" not in attributes, (tag, attributes)
        assert not (attributes.get("href") or "data:").startswith(("http", "//")), (tag, attributes)
    assert "default-src 'none'" in html and "url(" not in html and "@import" not in html


def test_names_that_are_markup_stay_names(html, content):
    tags = [tag for tag, _ in Elements(html).tags]
    assert tags.count("script") == 2 and "img" not in tags
    assert content["stations"]["id"][:4] == list(HOSTILE)
    assert not any("onerror" in key for _, attributes in Elements(html).tags for key in attributes)
    assert "run &lt;b&gt;" in html


def test_the_page_says_what_the_forecast_at_a_station_is_made_of(html):
    words = " ".join(Elements(html).words)
    for phrase in ("What the forecast at a station is made of", "linear guess", "validation windows of"):
        assert phrase in words
    table = html.partition("made of</h2>")[2].partition("</table>")[0]
    mean = [float(share) for share in re.findall(r">(-?[\d.]+) \(", table)]
    # Five variables; each row adds up to one within the rounding of its cells.
    columns = len(mean) // 5
    assert all(abs(sum(mean[n * columns :][:columns]) - 1.0) < 0.006 * columns for n in range(5))


def test_a_page_of_a_small_network_is_small(html):
    assert len(html.encode()) < 300_000


def test_the_series_on_the_page_are_the_forecast_to_a_thousandth_of_its_range(content):
    moment, series = reported_view().moment, content["series"]
    for channel, name in enumerate(STATE_VARIABLES):
        offset, step = series["scale"][name]
        packed = unpacked(series["forecast"][name], "<i2").reshape(moment.forecast.shape[:2])
        # A number is rounded to half a step of 16 bits.
        np.testing.assert_allclose(offset + step * packed, moment.forecast[..., channel], atol=0.51 * step, rtol=0)
        seen = unpacked(series["observed"][name], "<i2").reshape(moment.observed.shape[:2])
        assert ((seen == -32768) == np.isnan(moment.observed[..., channel])).all()


def test_the_forecast_on_the_page_is_what_the_forecast_command_gives(content):
    run, data = reported_run()
    moment = reported_view().moment
    forecast = StationPDE.load(run).forecast(data, at=str(np.datetime64(moment.issue_time, "s")))
    order = [list(forecast["station"].values).index(name) for name in moment.stations.id]
    # Same weights and window, in float32; only the order of sums may differ.
    np.testing.assert_allclose(moment.forecast[..., 3], forecast["t"].values[:, order] - 273.15, atol=2e-3)


def test_the_map_of_the_issue_time_is_the_lifted_observation(content):
    frames = content["frames"]
    assert frames["forecast"]["t"][:40] == frames["truth"]["t"][:40]
    assert frames["lead"] == [0.0, 3.0, 6.0, 9.0, 12.0] and len(frames["times"]) == 5


def test_a_lifted_field_agrees_with_the_stations_it_comes_from():
    moment, view = reported_view().moment, reported_view()
    grid = view.relief.grid
    row, column = (np.rint(x).astype(int) for x in grid.position(moment.stations.lat, moment.stations.lon))
    near = moment.truth[0, 0, row.clip(0, grid.height - 1), column.clip(0, grid.width - 1)]
    seen = moment.observed[moment.history - 1, :, 0]
    finite = np.isfinite(seen)
    # Winds of neighbours differ; their pattern must be the stations'.
    assert np.corrcoef(near[finite], seen[finite])[0, 1] > 0.7


def test_the_table_shows_the_scores_that_the_evaluation_found(html):
    statistics = reported_view().scored.statistics
    for name in (OURS, "persistence", "climatology"):
        mse = scores_by(statistics[name].total, statistics[name].variables)["t"].mse
        assert f"{mse:.3g}" in html


def test_learned_physics_are_shown_with_their_units(html):
    text = " ".join(Elements(html).words)
    for name, coefficient in StationPDE(reported_view().run).physics().items():
        assert name in text and f"{coefficient.value:.4g}" in text
    assert "km²/h" in text and "κ<sub>u</sub>" in html and "λ<sub>c</sub>" in html


def test_the_page_says_that_the_data_are_synthetic_and_where_it_comes_from(html):
    assert "synthetic" in html and reported_view().data.series.fingerprint[:16] in html
    assert commit() is None or commit() in html


def test_a_run_without_data_still_has_a_page():
    run, _ = reported_run()
    alone = build_run_view(run)
    assert alone.data is None
    html = page(alone)
    assert "--obs STORE" in html and "Learned physics" in html and 'id="map"' not in html


@pytest.mark.slow
def test_other_data_than_those_of_training_are_pointed_out(tmp_path):
    from fields.synthetic.network import write_network

    other = write_network(tmp_path / "other.zarr", stations=9, days=24, seed=5)
    view = build_run_view(reported_run()[0], other, windows=2, against=(), accept="foreign-network")
    assert any("not those of training" in note for note in view.notes)
    assert len(view.moment.stations) == 9 and np.isfinite(view.moment.forecast).all()


def test_an_issue_time_that_is_not_in_the_record_is_an_error_that_says_what_is():
    from fields.errors import DataError

    with pytest.raises(DataError, match="not in the record"):
        build_run_view(*reported_run(), at="2020-01-01T00:00", windows=1, against=())


def test_the_latest_issue_has_a_forecast_and_no_truth():
    view = build_run_view(*reported_run(), at="latest", windows=1, against=())
    moment = view.moment
    assert np.isfinite(moment.forecast).all() and np.isnan(moment.observed[moment.history :]).all()
    assert np.isnan(moment.truth[1:, 3]).all() and "frames" in page(view)


def test_an_existing_page_is_refused_before_any_work(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        check_page(tmp_path / "report.html")
    with pytest.raises(UsageError, match="no name of a page"):
        check_page(tmp_path / "report.pdf")
    assert check_page(tmp_path / "report.html", force=True).name == "report.html"
