"""Commands under ``benchmarks/``: networks are cut as they are told, and a term that explains errors is found."""

import itertools

import numpy as np
import pytest
import torch

from benchmarks.couplings import Guesses, gains
from benchmarks.network_settings import NETWORKS
from benchmarks.network_tables import leads, section
from benchmarks.networks import CELLS, Network, Shape, every, nearest, record_path, whole
from benchmarks.other_networks import MODELS, compute, estimate, finished
from fields.windows import Split


@pytest.fixture
def record(tmp_path):
    """Twenty stations along a meridian over fifty days, in the layout of the shared record."""
    rng, count = np.random.default_rng(0), 20
    time = np.datetime64("2023-01-01T00", "s") + np.arange(24 * 50) * np.timedelta64(3600, "s")
    alt = np.linspace(0.0, 900.0, count, dtype=np.float32)
    usual = np.tile(np.array([1.0, -1.0, 1013.0, 20.0, 70.0], np.float32), (count, 1))
    usual[:, 2] *= np.exp(-alt / 8500.0)
    obs = usual + rng.normal(size=(len(time), count, 5)).astype(np.float32)
    path = tmp_path / "whole" / "observations.npz"
    path.parent.mkdir()
    np.savez(
        path, obs=obs, variables=np.array(["u", "v", "p", "t", "rh"]), time=time,
        station_id=np.array([f"S{i:02d}" for i in range(count)]),
        lat=np.linspace(-30.0, -20.0, count, dtype=np.float32),
        lon=np.full(count, -50.0, np.float32), alt_m=alt,
    )  # fmt: skip
    return path


def test_a_network_is_cut_by_place_and_time(record, tmp_path):
    network = Network("", nearest(5, -20.0, -50.0), "2023-01-11", "2023-01-20T23")
    with np.load(record) as whole, np.load(network.cut(record, tmp_path / "cut" / "observations.npz")) as cut:
        assert cut["station_id"].tolist() == ["S15", "S16", "S17", "S18", "S19"]
        assert cut["time"][0] == np.datetime64("2023-01-11") and len(cut["time"]) == 240
        np.testing.assert_array_equal(cut["obs"], whole["obs"][240:480, 15:])
        np.testing.assert_array_equal(cut["alt_m"], whole["alt_m"][15:])


def test_values_and_variables_are_taken_out(record, tmp_path):
    network = Network("", every(4, 1), "2023-01-11", "2023-01-20T23", missing=0.2, without=("p",))
    with np.load(network.cut(record, tmp_path / "cut" / "observations.npz")) as cut:
        assert cut["station_id"].tolist() == ["S01", "S05", "S09", "S13", "S17"]
        assert cut["variables"].tolist() == ["u", "v", "t", "rh"]
        assert np.isnan(cut["obs"]).mean() == pytest.approx(0.2, abs=0.02)


def test_a_small_setting_has_a_smaller_cap():
    network = Network("", whole, "", "")
    assert [network.cap_seconds(Shape(n, 1000, 125.0)) for n in (10, 50, 150, 5000)] == [120.0, 300.0, 900.0, 900.0]


@pytest.fixture
def shapes_of_records():
    """Places and times of the shared records."""
    records = {}
    for name in {network.record for network in NETWORKS.values()} - {"meteonet_layout"}:
        if not record_path(name).exists():
            pytest.skip(f"{record_path(name)} is not here")
        with np.load(record_path(name)) as archive:
            records[name] = tuple(archive[part] for part in ("lat", "lon", "time"))
    return records


def test_trials_lie_within_the_training_periods_of_the_settings_they_share_stations_with(shapes_of_records):
    def stations(network):
        lat, lon, _ = shapes_of_records[network.record]
        return set(network.chosen(lat, lon).tolist())

    def trained_until(network):
        time = shapes_of_records[network.record][2]
        within = time[network._within(time)]
        shares = (0.5, 0.2, 0.3) if any("split" in pair for pair in network.overrides) else (0.6, 0.1, 0.3)
        return within[Split.of(len(within), shares).val]

    trials = [network for network in NETWORKS.values() if network.is_trial]
    settings = [network for network in NETWORKS.values() if not network.is_trial]
    pairs = [
        (t, s) for t, s in itertools.product(trials, settings) if t.record == s.record and stations(t) & stations(s)
    ]
    assert len(trials) >= 6 and len(settings) >= 16 and len(pairs) > len(trials)
    assert [(t.title, s.title) for t, s in pairs if np.datetime64(t.last) >= trained_until(s)] == []


def test_all_settings_take_less_than_ten_hours(shapes_of_records):
    networks = [network for network in NETWORKS.values() if network.record in shapes_of_records]
    shapes = [(network, network.shape(record_path(network.record))) for network in networks]
    total = sum(estimate(model, shape, network.cap_seconds(shape)) for network, shape in shapes for model in MODELS)
    assert total < 9.5 * 3600


def test_missing_cells_are_computed_once_and_compared(record, tmp_path, monkeypatch):
    network = Network("twelve stations", nearest(12, -20.0, -50.0), "2023-01-01", "2023-02-19T23")
    monkeypatch.setitem(NETWORKS, "twelve", network)
    monkeypatch.setattr("benchmarks.other_networks.prepared_record", lambda name, out: record)
    models = ("persistence", "yesterday", "climatology")
    assert compute("twelve", models, tmp_path / "out", tmp_path / "cells") == []
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells" / "twelve").glob("*.json")}
    assert len(written) == 3
    assert compute("twelve", models, tmp_path / "out", tmp_path / "cells") == []
    assert {path: path.stat().st_mtime_ns for path in written} == written
    results = finished("twelve", models, tmp_path / "out", tmp_path / "cells")
    # The record is noise about a mean: climatology has half the error of a forecast that repeats a value.
    lead = leads(results, "climatology")
    assert all(gain.gain == pytest.approx(0.5, abs=0.05) for gain in lead.over["best single peer"].values())


def test_leads_over_peers_are_counted_and_losses_named():
    former = "default:recipe_former"
    peers = tuple(model for model in MODELS if model != "default")
    results = finished("trial-six", (*peers, former, "default-no_pde:recipe_former"), CELLS, CELLS)
    lead = leads(results, former)
    assert lead.won + lead.level + lead.lost == 5 * (len(results.cells) - 2)
    worse = leads(results, "persistence")
    assert worse.lost == len(worse.losses) > 0
    assert all(gain.gain < 0 for gain in worse.over["blend"].values())
    text = section({"trial-six": results}, (former, "persistence"))
    assert NETWORKS["trial-six"].title in text and "**mean of 1**" in text


def test_a_term_that_explains_the_errors_is_found_and_one_that_does_not_gains_nothing():
    draw = torch.Generator().manual_seed(0)
    made = lambda: torch.randn(200, 2, 4, 5, generator=draw)
    splits = []
    for _ in range(2):
        guess, term, noise = made(), made(), made()
        splits.append((Guesses(guess, guess + 0.5 * term + noise, torch.zeros(()), torch.zeros(200)), term))
    terms = {id(given): term for given, term in splits}
    (known, _), (asked, _) = splits
    on_blocks, better = gains(known, asked, lambda given: [terms[id(given)]])
    # A quarter of the noise's variance comes from the term: 1 - 1 / 1.25.
    assert all(abs(gain - 0.2) < 0.06 for gain in on_blocks)
    assert float((better - asked.truth).square().mean()) < 1.05
    useless, same = gains(known, asked, lambda given: [torch.roll(terms[id(given)], 1, dims=0)])
    assert max(map(abs, useless)) < 0.03
    assert float((same - asked.guess).square().mean()) < 0.01


def test_a_target_that_was_not_observed_has_no_say_in_a_coefficient():
    draw = torch.Generator().manual_seed(1)
    guess, term = torch.randn(80, 1, 3, 5, generator=draw), torch.randn(80, 1, 3, 5, generator=draw)
    truth = guess + 2.0 * term
    truth[::3] = torch.nan
    _, better = gains(*[Guesses(guess, truth, torch.zeros(()), torch.zeros(80))] * 2, lambda given: [term])
    # The coefficient is drawn to nothing by a thousandth.
    torch.testing.assert_close(better, guess + 2.0 * term, rtol=0.0, atol=0.02)
