"""Outputs of commands that must not cost the inputs, and options that must not be ignored in silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fields import store
from fields.synthetic import write_network
from stationpde.errors import UsageError
from stationpde.training.device import resolve_device


@pytest.fixture(scope="module")
def observations(tmp_path_factory) -> Path:
    return write_network(tmp_path_factory.mktemp("network") / "obs.zarr", stations=8, days=4, seed=0)


def test_a_lift_does_not_replace_the_record_that_it_reads(stationpde, observations):
    before = store.fingerprint(observations)
    for force in ([], ["--force"]):
        result = stationpde("field", "lift", str(observations), str(observations), *force)
        assert result[0] == 2
        assert "is read by this command" in result[2]
        assert "choose another output" in result[2]
    assert store.fingerprint(observations) == before


@pytest.mark.parametrize("command", ["forecast", "report"])
def test_an_output_that_is_an_input_is_refused_before_anything_is_read(stationpde, observations, tmp_path, command):
    run = tmp_path / "run"  # is not even looked at
    inside = observations / "new.html"
    for output in (observations, inside, observations.parent):
        result = stationpde(command, str(run), "--obs", str(observations), "-o", str(output), "--force")
        assert result[0] == 2
        assert "is read by this command" in result[2]
    assert not inside.exists()


def test_places_are_not_replaced_by_their_forecast(stationpde, observations, tmp_path):
    places = tmp_path / "places.csv"
    places.write_text("name,lat,lon,alt\nx,49,-123,10\n")
    line = ["forecast", str(tmp_path / "run"), "--obs", str(observations), "--stations", str(places)]
    result = stationpde(*line, "-o", str(places), "--force")
    assert result[0] == 2
    assert places.read_text().startswith("name,lat,lon,alt")


def test_an_ingest_does_not_replace_its_source(stationpde, observations):
    result = stationpde("data", "ingest", str(observations), "-o", str(observations), "--force")
    assert result[0] == 2
    assert "is read by this command" in result[2]


@pytest.mark.parametrize("name", ["table.csv/x.nc", "a" * 300 + ".csv"])
def test_an_output_below_a_file_or_with_too_long_a_name_is_refused_in_words(stationpde, observations, tmp_path, name):
    (tmp_path / "table.csv").write_text("x")
    result = stationpde("forecast", str(tmp_path / "run"), "--obs", str(observations), "-o", str(tmp_path / name))
    assert result[0] == 2
    assert "SPDE-D004" in result[2]


def test_a_page_of_keys_replaces_no_other_file(stationpde, tmp_path):
    thesis = tmp_path / "thesis.md"
    thesis.write_text("# My thesis\n")
    assert stationpde("config", "page", str(thesis))[0] == 2
    assert thesis.read_text() == "# My thesis\n"
    page = tmp_path / "keys.md"
    assert stationpde("config", "page", str(page))[0] == 0
    assert stationpde("config", "page", str(page))[0] == 0


@pytest.mark.parametrize("option", [["--seeds", "a"], ["--max-time", "soon"], ["--resume", "maybe"]])
def test_a_dry_run_looks_at_every_option(stationpde, observations, tmp_path, option):
    line = ["train", str(observations), "--run", str(tmp_path / "run"), "--preset", "tiny", "--dry-run"]
    result = stationpde(*line, *option)
    assert result[0] == 2
    assert option[0] in result[2] or option[1] in result[2]


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "meta"])
def test_a_device_that_is_none_is_refused_in_words(name):
    with pytest.raises(UsageError, match="there is no device") as caught:
        resolve_device(name)
    assert caught.value.do == "--device cpu"


@pytest.mark.parametrize("option", [["--count", "2"], ["--poll", "60"]])
def test_an_option_of_the_watch_without_a_watch_is_refused(stationpde, observations, tmp_path, option):
    result = stationpde("forecast", str(tmp_path / "run"), "--obs", str(observations), *option)
    assert result[0] == 2
    assert "--watch" in result[2]


@pytest.mark.parametrize("option", [["--preset", "tiny"], ["--set", "train.epochs=1"], ["--windows", "3"]])
def test_what_would_be_trained_with_is_refused_where_scores_are_drawn(stationpde, tmp_path, option):
    result = stationpde("plot", "w-alt", str(tmp_path / "w_alt.json"), "-o", str(tmp_path / "w.png"), *option)
    assert result[0] == 2
    assert option[0] in result[2] and "nothing is trained" in result[2]


@pytest.mark.parametrize("name", ["x{foo}.nc", "{}.csv", "{time}-{Time}.nc"])
def test_a_word_in_braces_that_stands_for_nothing_is_refused(stationpde, observations, tmp_path, name):
    line = ["forecast", str(tmp_path / "run"), "--obs", str(observations), "-o", str(tmp_path / name)]
    result = stationpde(*line)
    assert result[0] == 2
    assert "SPDE-T097" in result[2] and "{time}" in result[2]


@pytest.mark.parametrize("body", ["def (", "1/0", "nothing_of_that_name"])
def test_a_module_of_the_user_that_fails_is_no_defect_of_ours(stationpde, tmp_path, monkeypatch, body):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / f"mine_{len(body)}.py"
    module.write_text(body)
    result = stationpde("ops", "list", "--module", str(module))
    assert result[0] == 2
    assert "fails when it is imported" in result[2]


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_costs_what_would_be_printed_there_alone(closed):
    line = f"{sys.executable} -m cli ops list laplacian {closed}"
    ended = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ended.stderr == ""
