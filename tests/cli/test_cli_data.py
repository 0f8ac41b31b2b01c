"""`stationpde data`: parse, do, print; exit codes and JSON as documented."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from cli import _progress
from cli.main import app
from fields import store
from fields.progress import ProgressEvent, Tracker
from reader_files import Weather, write_npz, write_rows


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    write_npz(path / "obs.npz", Weather(12, 240))
    assert run("data", "ingest", path / "obs.npz", "-o", path / "o.zarr").exit_code == 0
    return path


def test_ingest_prints_what_it_made(tmp_path):
    write_npz(tmp_path / "obs.npz", Weather(6, 60))
    outcome = run("data", "ingest", tmp_path / "obs.npz", "-o", tmp_path / "o.zarr")
    assert outcome.exit_code == 0
    assert f"{tmp_path / 'o.zarr'}: 6 stations, 60 times, u, v, p, t, rh (reader arrays)" in outcome.stdout
    assert "writing 100 % 60 steps" in outcome.stderr


def test_ingest_answers_with_one_json_object(tmp_path):
    write_npz(tmp_path / "obs.npz", Weather(6, 60))
    outcome = run("data", "ingest", tmp_path / "obs.npz", "-o", tmp_path / "o.zarr", "--json")
    answer = json.loads(outcome.stdout)
    assert (answer["stations"], answer["steps"], answer["reader"]) == (6, 60, "arrays")
    assert answer["fingerprint"] == store.fingerprint(tmp_path / "o.zarr")
    assert answer["report"]["ok"]


def test_quiet_ingest_says_nothing_on_the_way(tmp_path):
    write_npz(tmp_path / "obs.npz", Weather(6, 60))
    outcome = run("data", "ingest", tmp_path / "obs.npz", "-o", tmp_path / "o.zarr", "-q")
    assert outcome.stderr == ""


def test_an_existing_output_exits_2_and_force_replaces_it(tmp_path):
    write_npz(tmp_path / "obs.npz", Weather(6, 60))
    line = ("data", "ingest", tmp_path / "obs.npz", "-o", tmp_path / "o.zarr", "--no-qc")
    assert run(*line).exit_code == 0
    again = run(*line)
    assert again.exit_code == 2
    assert "add --force" in again.stderr
    assert run(*line, "--force").exit_code == 0


def test_bad_data_exit_3_in_the_documented_form(tmp_path):
    weather = Weather(6, 60)
    weather.p *= 100
    write_npz(tmp_path / "obs.npz", weather)
    outcome = run("data", "ingest", tmp_path / "obs.npz", "-o", tmp_path / "o.zarr")
    assert outcome.exit_code == 3
    lines = [line for line in outcome.stderr.splitlines() if "checking" not in line]
    assert lines[0] == "error SPDE-D012: pressure at station level looks like Pa but is declared hPa"
    assert lines[1].startswith("  where obs.npz › p › 6 of 6 stations (first: S000, S001, S002)   median ")
    assert lines[2] == f"  do    stationpde data ingest {tmp_path / 'obs.npz'} -o {tmp_path / 'o.zarr'} --unit p=Pa"


def test_a_broken_map_exits_4_with_the_line(tmp_path):
    write_rows(tmp_path / "obs.csv", Weather(3, 5).rows())
    (tmp_path / "map.toml").write_text("title = 'x'\n[file\n")
    outcome = run("data", "ingest", tmp_path / "obs.csv", "-o", tmp_path / "o.zarr", "--map", tmp_path / "map.toml")
    assert outcome.exit_code == 4
    assert "line 2" in outcome.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--unit", "pPa"],
        ["--on-duplicate", "last"],
        ["--on-move", "wait"],
        ["--pressure", "high"],
        ["--step", "often"],
        ["--start", "then"],
        ["--time-zone", "Mars"],
        ["--reader", "tabel"],
        ["--max-missing", "2"],
        ["--missing", "t=guess"],
        ["--every", "0"],
    ],
)
def test_what_cannot_be_meant_exits_2(folder, tmp_path, words):
    outcome = run("data", "ingest", folder / "obs.npz", "-o", tmp_path / "o.zarr", *words)
    assert outcome.exit_code == 2, outcome.output
    assert not (tmp_path / "o.zarr").exists()


def test_every_option_of_the_documentation_is_taken(tmp_path):
    rows = Weather(6, 120).rows()
    write_rows(tmp_path / "obs.csv", [*rows, {**rows[0], "t": rows[0]["t"] + 1}])
    outcome = run(
        "data", "ingest", tmp_path / "obs.csv", "-o", tmp_path / "o.zarr", "--reader", "table", "--map", "tidy",
        "--unit", "p=hPa", "--unit", "t=degC", "--time-zone", "UTC", "--step", "3h", "--on-duplicate", "mean",
        "--missing", "p=standard-atmosphere", "--max-bytes", "1000000", "--trust", "t", "--drop", "S003", "--fix",
        "--max-missing", "0.9", "--train-fraction", "0.5", "--json",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["stations"] == 5
    ds = store.open_store(tmp_path / "o.zarr")
    assert ds.attrs["step_seconds"] == 10800
    assert ds.attrs["pressure_kind"] == "standard_atmosphere"


def test_validate_proves_a_store(folder):
    outcome = run("data", "validate", folder / "o.zarr")
    assert outcome.exit_code == 0
    assert outcome.stdout.splitlines()[-1] == f"{folder / 'o.zarr'}: ok"


def test_validate_exits_5_on_a_flipped_bit_and_names_the_chunk(tmp_path):
    write_npz(tmp_path / "obs.npz", Weather(6, 60))
    run("data", "ingest", tmp_path / "obs.npz", "-o", tmp_path / "o.zarr", "--no-qc")
    chunk = next(p for p in (tmp_path / "o.zarr" / "t" / "c").rglob("*") if p.is_file())
    raw = bytearray(chunk.read_bytes())
    raw[len(raw) // 2] ^= 1
    chunk.write_bytes(raw)
    outcome = run("data", "validate", tmp_path / "o.zarr", "--json")
    assert outcome.exit_code == 5
    answer = json.loads(outcome.stdout)
    assert not answer["whole"]
    assert "› t › chunk 0,0" in answer["problems"][0]["where"]


def test_validate_exits_3_on_content_that_does_not_fit(tmp_path, folder):
    ds = store.open_store(folder / "o.zarr").load()
    ds["lat"].values[2] = 89.5
    store.write_store(ds, tmp_path / "o.zarr")
    outcome = run("data", "validate", tmp_path / "o.zarr")
    assert outcome.exit_code == 3
    assert "does not fit the schema" in outcome.stdout


def test_validate_of_nothing_says_so(tmp_path):
    assert run("data", "validate", tmp_path / "absent.zarr").exit_code in (2, 5)


def test_info_prints_the_card_and_draws_the_network(folder, tmp_path):
    outcome = run("data", "info", folder / "o.zarr", "--plot", tmp_path / "map.png", "--json")
    assert outcome.exit_code == 0, outcome.output
    answer = json.loads(outcome.stdout)
    assert (answer["stations"], answer["times"]) == (12, 240)
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "stations   12" in outcome.stderr
    again = run("data", "info", folder / "o.zarr", "--plot", tmp_path / "map.png")
    assert again.exit_code == 2


def test_synth_writes_a_store_that_says_what_it_is(tmp_path):
    outcome = run("data", "synth", tmp_path / "demo.zarr", "--station-count", 12, "--days", 3, "--json")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["steps"] == 72
    assert store.open_store(tmp_path / "demo.zarr").attrs["title"].startswith("Synthetic")


def test_qc_prints_the_table_of_planted_errors(tmp_path):
    run("data", "synth", tmp_path / "demo.zarr", "--station-count", 12, "--days", 40)
    outcome = run("data", "qc-score", tmp_path / "demo.zarr", "--json")
    assert outcome.exit_code == 0, outcome.output
    answer = json.loads(outcome.stdout)
    assert {row["kind"] for row in answer["errors"]} >= {"spike", "stuck", "drift"}
    assert 0 <= answer["gross"]["values"] <= 1
    assert "seeded" in outcome.stderr


@pytest.mark.parametrize(
    ("name", "word"), [("weather2k", "(1866, 13, 13632)"), ("meteonet", "Etalab"), ("table", "[time]")]
)
def test_where_tells_what_to_fetch_and_what_to_type(name, word):
    outcome = run("data", "where", name)
    assert outcome.exit_code == 0
    assert word in outcome.stdout
    assert "stationpde data ingest" in outcome.stdout


def test_where_suggests_the_nearest_name():
    outcome = run("data", "where", "wether2k")
    assert outcome.exit_code == 2
    assert "did you mean 'weather2k'?" in outcome.stderr


def test_the_maps_that_the_text_names_ship():
    from fields.readers.column_map import shipped_maps
    from fields.readers.download_guide import download_guide

    for name in ("inmet", "tidy", "asos", "noaa_hourly"):
        assert f"--map {name}" in download_guide("table")
        assert name in shipped_maps()


def test_the_map_in_the_text_is_sound():
    from fields.readers.column_map import parse_map
    from fields.readers.download_guide import download_guide

    lines = download_guide("table").splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == "[file]")
    stop = next(i for i, line in enumerate(lines) if line.startswith("Maps that ship"))
    assert set(parse_map("\n".join(lines[start:stop]).encode(), "text").variables) == {"t", "ff", "dd", "p"}


# ---- progress ------------------------------------------------------------------------------------------------------


def test_the_time_to_go_follows_the_rate_of_this_run():
    now, events = [0.0], []
    tracker = Tracker(events.append, clock=lambda: now[0])
    tracker("write", 500, 1000, "steps")  # an earlier run had done half
    now[0] = 10.0
    tracker("write", 750, 1000, "steps")
    assert events[-1].eta == pytest.approx(10.0)
    now[0] = 20.0
    tracker("write", 1000, 1000, "steps")
    assert events[-1].is_last


def test_events_come_a_few_times_a_second_at_most():
    now, events = [0.0], []
    tracker = Tracker(events.append, clock=lambda: now[0])
    for i in range(1000):
        now[0] = i / 1000
        tracker("write", i, 100_000, "steps")
    assert len(events) <= 6


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setattr(_progress.sys.stderr, "isatty", lambda: True, raising=False)
    with _progress.ProgressDisplay() as display:
        display(ProgressEvent("read", 10, 100, "bytes", 1.0, 9.0))
        display(ProgressEvent("write", 100, 100, "steps", 1.0, 0.0))
    assert display._bar is not None
    assert [task.description for task in display._bar.tasks] == ["reading", "writing"]


def test_wind_from_speed_and_direction_reaches_the_store(tmp_path):
    weather = Weather(6, 60)
    rows = weather.rows()
    for row in rows:
        u, v = row.pop("u"), row.pop("v")
        row["wind_speed"], row["wind_direction"] = float(np.hypot(u, v)), float(np.rad2deg(np.arctan2(-u, -v)) % 360)
    write_rows(tmp_path / "obs.csv", rows)
    assert run("data", "ingest", tmp_path / "obs.csv", "-o", tmp_path / "o.zarr", "--no-qc").exit_code == 0
    assert np.allclose(store.open_store(tmp_path / "o.zarr")["u"].values, weather.u, atol=1e-4)


def test_validate_calls_a_file_no_store_and_not_a_damaged_one(stationpde, tmp_path):
    path = tmp_path / "observations.npz"
    path.write_bytes(b"x")
    exit_code, out, err = stationpde("data", "validate", str(path))
    assert exit_code == 5
    assert "is not a finished store" in out + err
    assert "is damaged" not in out + err


def test_dates_that_fit_two_orders_exit_3_and_the_order_settles_them(tmp_path):
    rows = [{**row, "time": f"{row['time'][5:7]}/{row['time'][8:10]}/{row['time'][:4]} {row['time'][11:]}"}
            for row in Weather(6, 48).rows()]  # fmt: skip
    write_rows(tmp_path / "obs.csv", rows)
    line = ("data", "ingest", tmp_path / "obs.csv", "-o", tmp_path / "o.zarr", "--no-qc")
    refused = run(*line)
    assert refused.exit_code == 3 and "month/day/year" in refused.stderr
    assert "--date-order mdy (or dmy" in refused.stderr
    assert run(*line, "--date-order", "mdx").exit_code == 2
    assert run(*line, "--date-order", "mdy").exit_code == 0


def test_an_axis_that_is_mostly_empty_exits_3_and_may_be_accepted(tmp_path):
    rows = Weather(6, 48).rows()
    write_rows(tmp_path / "obs.csv", [*rows, {**rows[0], "time": "2021-05-01T00:00:00"}])
    line = ("data", "ingest", tmp_path / "obs.csv", "-o", tmp_path / "o.zarr", "--no-qc")
    refused = run(*line)
    assert refused.exit_code == 3 and "--accept sparse-axis" in refused.stderr
    assert run(*line, "--accept", "all").exit_code == 2
    assert run(*line, "--accept", "sparse-axis").exit_code == 0


def test_info_warns_of_numbers_that_cannot_be_in_the_unit_of_a_store(tmp_path, folder):
    ds = store.open_store(folder / "o.zarr").load()
    ds = ds[["t"]].assign(t=(ds["t"] - 273.15).assign_attrs(ds["t"].attrs))
    with store.create(tmp_path / "c.zarr", ds) as staged:
        for region in staged.blocks():
            staged.write(ds[["t"]].isel(region).drop_vars(["time", "station", "lat", "lon", "alt"]), region)
    shown = run("data", "info", tmp_path / "c.zarr")
    assert shown.exit_code == 0 and "warning: `t` cannot be in [K]" in " ".join(shown.stderr.split())
    for command in (["lift", tmp_path / "c.zarr", tmp_path / "f.zarr"], ["cv", tmp_path / "c.zarr"]):
        refused = run("field", *command)
        assert refused.exit_code == 3 and "SPDE-D012" in refused.stderr
    assert "cannot be" not in run("data", "info", folder / "o.zarr").stderr
