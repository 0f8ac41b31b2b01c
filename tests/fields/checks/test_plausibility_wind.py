"""Wind against pressure: a direction read the wrong way round is report, a true one never is."""

import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.main import app
from fields import store
from fields.checks.values import Subject
from fields.checks.wind import check_wind_direction, turning
from fields.derive import wind_speed_direction
from fields.errors import DataError
from fields.ingest.pipeline import ingest_files
from fields.synthetic.network import make_network


def findings(ds, sign=1.0, source_variable="u", declared="degrees", **subject):
    p, u, v = (ds[name].values.astype(float) for name in ("p", "u", "v"))
    places = ds["lat"].values, ds["lon"].values
    wind = sign * u, sign * v
    return check_wind_direction(p, *wind, ds["time"].values, places, Subject(**subject), source_variable, declared)


@pytest.fixture(scope="module")
def network():
    return make_network(stations=20, days=30, seed=3).isel(time=slice(None, None, 5))


def test_a_true_wind_passes_and_a_reversed_one_is_an_error(network):
    assert len(findings(network)) == 0
    report = findings(network, -1.0)
    assert [p.code for p in report.errors] == ["SPDE-D012"]
    assert "change the sign of u and v" in report.errors[0].do


@pytest.mark.parametrize(
    ("declared", "contrary"),
    [("degrees", "towards"), ("towards", "degrees"), ("compass", "compass-towards"), ("compass-towards", "compass")],
)
def test_the_unit_that_is_advised_is_the_contrary_of_the_declared_one(network, declared, contrary):
    assert f"--unit dd={contrary} " in f"{findings(network, -1.0, 'dd', declared).errors[0].do} "


def test_south_of_the_equator_the_wind_turns_the_other_way(network):
    mirrored = network.assign_coords(lat=-network["lat"]).assign(v=-network["v"])
    assert len(findings(mirrored)) == 0
    assert not findings(mirrored, -1.0).ok


def test_a_user_may_vouch_for_the_wind(network):
    report = findings(network, -1.0, trust=("u",))
    assert report.ok and report.warnings
    # Somebody who did is not advised to do so.
    assert "--trust" in findings(network, -1.0).errors[0].do and "--trust" not in report.warnings[0].do


@pytest.mark.parametrize(
    "part",
    [{"time": slice(0, 40)}, {"station": slice(0, 5)}],
    ids=["too short", "too few stations"],
)
def test_nothing_is_said_where_too_little_is_known(network, part):
    assert len(findings(network.isel(part), -1.0)) == 0


def test_nothing_is_said_near_the_equator_or_of_wind_without_relation_to_pressure(network):
    assert len(findings(network.assign_coords(lat=network["lat"] - network["lat"].min() + 1.0), -1.0)) == 0
    rng = np.random.default_rng(0)
    noise = {name: network[name] * 0 + rng.standard_normal(network[name].shape) for name in ("u", "v")}
    assert len(findings(network.assign(noise), -1.0)) == 0


def test_all_real_networks_pass_as_they_are_and_fail_reversed(shared_data):
    with np.load(shared_data / "inmet_south" / "observations.npz") as file:
        parts = {name: file[name] for name in ("obs", "time", "lat", "lon")}
    u, v, p = (parts["obs"][::37, :, i].astype(float) for i in range(3))
    strength, angle = turning(p, u, v, parts["time"][::37], parts["lat"], parts["lon"])
    # Two years of a hundred stations: 0.8 and 60 degrees, whatever the month.
    assert strength > 0.7 and 30 < angle < 90
    assert turning(p, -u, -v, parts["time"][::37], parts["lat"], parts["lon"])[1] < -90


def test_a_table_of_directions_the_wind_goes_to_is_refused_and_mended_by_the_command(network, tmp_path):
    hourly = make_network(stations=8, days=20, seed=3)
    speed, direction = wind_speed_direction(hourly["u"].values, hourly["v"].values)
    parts = [speed, (direction + 180.0) % 360.0, hourly["p"].values, hourly["t"].values]
    np.savez(
        tmp_path / "obs.npz", obs=np.stack(parts, axis=-1).astype(np.float32), variables=["ff", "dd", "p", "t"],
        time=hourly["time"].values.astype("datetime64[s]"), station_id=hourly["station"].values.astype(str),
        lat=hourly["lat"].values, lon=hourly["lon"].values, alt_m=hourly["alt"].values,
    )  # fmt: skip
    units = ["--unit", "p=Pa", "--unit", "t=K", "--no-qc"]
    line = ["data", "ingest", str(tmp_path / "obs.npz"), "-o", str(tmp_path / "o.zarr"), *units]
    refused = CliRunner().invoke(app, line)
    assert refused.exit_code == 3
    advice = next(text for text in refused.stderr.splitlines() if "dd=towards" in text)
    command = advice.strip().removeprefix("do").strip().partition("   ")[0]
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 0
    ingested = store.open_store(tmp_path / "o.zarr")
    assert np.nanmax(np.abs(ingested["u"].values - hourly["u"].values)) < 1e-3
    with pytest.raises(DataError):
        ingest_files(tmp_path / "obs.npz", tmp_path / "p.zarr")
