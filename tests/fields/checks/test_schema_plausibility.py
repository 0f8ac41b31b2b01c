"""Wrong units, exchanged coordinates, reduced pressures: found, named with stations and the command that mends."""

import numpy as np
import pytest

from derivation_oracles import sea_level_pressure
from fields.checks.network import check_coordinates, check_daily_cycle, check_pressure_profile
from fields.checks.values import Subject, check_values, sentinel_mask
from fields.derive import wind_speed_direction
from fields.ingest.gate import UnitGate
from fields.units import conversion
from fields.variables import PressureKind
from station_records import make_stations


@pytest.fixture(scope="module")
def network():
    return make_stations(400, 20, seed=3)


@pytest.fixture(scope="module")
def subject(network):
    return Subject("obs.csv", [str(s) for s in network["station"].values], "stationpde data ingest obs.csv -o x.zarr")


def in_unit(network, name, unit):
    """Return the network's values as a file in that unit would have them."""
    if name == "ff":
        values = 6.0 * np.random.default_rng(0).weibull(2.0, (400, 20))  # a windy coast: mean 5.3 m/s
    else:
        values = network[name].values.astype(float)
    return conversion(name, unit).from_si(values)


SLIPS = [
    ("p", "Pa", "hPa"), ("p", "hPa", "Pa"), ("p", "inHg", "hPa"), ("p", "kPa", "hPa"), ("t", "K", "degC"),
    ("t", "degC", "K"), ("t", "degF", "degC"), ("t", "degF", "K"), ("rh", "1", "%"), ("rh", "%", "1"),
    ("ff", "kt", "m/s"), ("ff", "mph", "m/s"), ("ff", "km/h", "m/s"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "true", "declared"), SLIPS)
def test_a_unit_slip_is_an_error_that_names_the_unit_to_declare(network, subject, name, true, declared):
    report = check_values(name, in_unit(network, name, true), declared, subject)
    (problem,) = report.errors
    assert problem.code == "SPDE-D012"
    spoken = "a fraction (0 to 1)" if declared == "1" else declared
    assert f"but is declared {spoken}" in problem.what
    assert true in problem.what.split(" but ")[0]
    assert "obs.csv" in problem.where and "20 of 20 stations (first: S000, S001, S002)" in problem.where
    assert problem.do.startswith("stationpde data ingest obs.csv -o x.zarr --unit " + name + "=")


def test_the_error_reads_as_the_manual_shows_it(network, subject):
    lines = check_values("p", in_unit(network, "p", "Pa"), "hPa", subject).errors[0].lines()
    assert lines[0] == "error SPDE-D012: pressure at station level looks like Pa but is declared hPa"
    assert lines[1].startswith("  where obs.csv › p › 20 of 20 stations (first: S000, S001, S002)   median ")
    assert lines[2] == "  do    stationpde data ingest obs.csv -o x.zarr --unit p=Pa"


@pytest.mark.parametrize(("name", "unit"), [("p", "hPa"), ("t", "degC"), ("t", "degF"), ("rh", "%"), ("ff", "m/s")])
def test_values_that_are_what_they_say_pass_in_silence(network, subject, name, unit):
    assert len(check_values(name, in_unit(network, name, unit), unit, subject)) == 0


def test_a_few_stations_in_another_unit_are_a_warning_about_those_stations(network, subject):
    values = in_unit(network, "t", "degC")
    values[:, 4] = 1.8 * values[:, 4] + 32 + 40
    report = check_values("t", values, "degC", subject)
    assert report.ok
    assert any("station S004" in problem.where for problem in report.warnings)


def test_a_user_may_vouch_for_the_values(network):
    trusting = Subject("obs.csv", trust={"ff"})
    report = check_values("ff", in_unit(network, "ff", "km/h"), "m/s", trusting)
    assert report.ok and len(report.warnings) == 1


def test_components_of_the_wind_are_declared_each(network):
    u, v = (in_unit(network, "ff", "km/h") * 2 for _ in "uv")
    gate = UnitGate({"u": "m/s", "v": "m/s"}, network["station"].values)
    for name, values in (("u", u * 0.6), ("v", v * 0.6)):
        gate.convert(name, values.astype(np.float32))
    advice = " ".join(problem.do for problem in gate.report().errors)
    assert "--unit u=" in advice and "--unit v=" in advice and "ff=" not in advice


def test_whole_wind_speeds_ask_whether_they_are_knots(network, subject):
    report = check_values("ff", np.round(in_unit(network, "ff", "m/s")), "m/s", subject)
    assert report.ok and "--unit ff=kt" in report.notices[0].do


def test_nothing_is_ever_scaled_because_it_looks_wrong(network):
    gate = UnitGate({"p": "hPa"}, network["station"].values)
    converted = gate.convert("p", network["p"].values)  # Pa, declared hPa
    np.testing.assert_array_equal(converted.values, network["p"].values * np.float32(100))
    assert not gate.report().ok


@pytest.mark.parametrize(
    ("name", "unit", "code"),
    [
        ("t", "degC", -9999.0), ("t", "degC", 9999.0), ("t", "degC", 999.9), ("p", "hPa", 32766.0), ("rh", "%", -99.0),
        ("ff", "m/s", 999.0), ("alt", "m", -9999.0), ("t", "K", -999.0), ("dd", "degrees", 999.0),
    ],
)  # fmt: skip
def test_codes_for_missing_are_recognised_where_the_variable_cannot_take_them(name, unit, code):
    coded = sentinel_mask(name, np.array([code, np.float32(code)]), unit)
    assert coded.all()


@pytest.mark.parametrize(
    ("name", "unit", "value"), [("p", "hPa", 999.0), ("p", "hPa", 999.9), ("rh", "%", 99.0), ("t", "degF", 99.9)]
)
def test_a_code_that_may_be_a_measurement_is_one(name, unit, value):
    assert not sentinel_mask(name, np.array([value]), unit).any()


def test_the_gate_counts_codes_and_infinities_and_reads_them_as_missing(network):
    values = in_unit(network, "t", "degC")
    values[3, 2], values[4, 2], values[5, 1] = -9999.0, np.inf, -np.inf
    gate = UnitGate({"t": "degC"}, network["station"].values, "obs.csv")
    converted = gate.convert("t", values)
    assert np.isnan(converted.values).sum() == 3 and converted.codes.sum() == 3
    assert gate.counts["t"] == {"values": 8000, "missing": 3, "codes": 3, "infinite": 2}
    assert "SPDE-D018" in gate.report().codes()


def test_the_gate_of_the_writing_pass_converts_alike_and_keeps_nothing(network):
    values = in_unit(network, "t", "degC")
    values[3, 2] = -9999.0
    surveying, writing = UnitGate({"t": "degC"}), UnitGate({"t": "degC"}, keeps_sample=False)
    expected, converted = surveying.convert("t", values), writing.convert("t", values)
    np.testing.assert_array_equal(converted.values, expected.values)
    np.testing.assert_array_equal(converted.codes, expected.codes)
    assert writing.counts == {} and writing.sample("t")[1].size == 0 < surveying.sample("t")[1].size


def test_the_gate_judges_blocks_of_times_and_of_stations_alike(network):
    for blocks in ([(slice(0, 200), slice(None)), (slice(200, 400), slice(None))],
                   [(slice(None), slice(0, 8)), (slice(None), slice(8, 20))]):  # fmt: skip
        gate = UnitGate({"p": "hPa"}, [str(s) for s in network["station"].values], "obs.csv")
        for rows, columns in blocks:
            gate.convert("p", network["p"].values[rows, columns], columns=columns)
        assert "20 of 20 stations" in gate.report().errors[0].where


# ---- the network as a whole ------------------------------------------------------------------------------------


def coordinates(network):
    return (network[c].values.copy() for c in ("lat", "lon", "alt"))


def test_a_sound_network_passes_in_silence(network, subject):
    lat, lon, alt = coordinates(network)
    assert len(check_coordinates(lat, lon, alt, subject)) == 0
    assert len(check_pressure_profile(network["p"].values, alt, subject)) == 0
    assert len(check_daily_cycle(network["t"].values, network["time"].values, lat, lon, subject)) == 0


def test_exchanged_coordinates_are_found_beyond_the_poles(network, subject):
    lat, lon, alt = coordinates(network)
    report = check_coordinates(lon + 110, lat, alt, subject)  # a network in China, exchanged
    assert report.errors[0].code == "SPDE-D013" and "exchanged" in report.errors[0].what


def test_longitudes_from_0_to_360_are_found(network, subject):
    lat, lon, alt = coordinates(network)
    report = check_coordinates(lat, (lon - 30) % 360, alt, subject)
    assert report.errors[0].do.endswith("--unit lon=0-360")


def test_altitudes_in_feet_are_found_by_their_size_or_by_the_pressure(network, subject):
    lat, lon, alt = coordinates(network)
    assert check_coordinates(lat, lon, alt / 0.3048 * 3, subject).errors[0].code == "SPDE-D015"
    report = check_pressure_profile(network["p"].values, alt / 0.3048, subject)
    assert report.errors[0].do.endswith("--unit alt=ft")
    report = check_pressure_profile(network["p"].values, alt * 0.3048, subject)
    assert report.errors[0].do.endswith("--unit alt=m")


def test_pressure_reduced_to_the_sea_is_found_by_its_indifference_to_altitude(network, subject):
    _, _, alt = coordinates(network)
    reduced = sea_level_pressure(network["p"].values, network["t"].values, alt)
    report = check_pressure_profile(reduced, alt, subject)
    assert report.errors[0].code == "SPDE-D016" and "reduced to the sea" in report.errors[0].what
    assert len(check_pressure_profile(reduced, alt, subject, kind=PressureKind.SEA_LEVEL)) == 0
    assert not check_pressure_profile(network["p"].values, alt, subject, kind=PressureKind.SEA_LEVEL).ok


def test_millimetres_of_mercury_declared_hpa_are_found_by_the_altitudes(network, subject):
    _, _, alt = coordinates(network)
    report = check_pressure_profile(network["p"].values * 0.750062, alt, subject)
    assert report.errors[0].code == "SPDE-D012" and "mmHg" in report.errors[0].do


def test_one_misplaced_station_is_named(network, subject):
    _, _, alt = coordinates(network)
    alt[7] += 400
    report = check_pressure_profile(network["p"].values, alt, subject)
    assert report.ok and "station S007" in report.warnings[0].where


def test_a_flat_network_is_not_judged_by_its_pressures(network, subject):
    flat = make_stations(200, 20)
    assert len(check_pressure_profile(flat["p"].values * 0 + 101000.0, np.full(20, 5.0), subject)) == 0


def test_a_local_clock_declared_utc_is_found_by_the_daily_cycle(network, subject):
    lat, lon, _ = coordinates(network)
    times = network["time"].values + np.timedelta64(8, "h")
    (problem,) = check_daily_cycle(network["t"].values, times, lat, lon, subject).warnings
    assert problem.code == "SPDE-D009" and problem.do.endswith("--time-zone UTC+8")


def test_exchanged_coordinates_below_90_are_found_by_the_daily_cycle_when_far_apart(network, subject):
    lat, lon, _ = coordinates(network)  # 46 N, 3 E: three hours of the sun lie between the two
    report = check_daily_cycle(network["t"].values, network["time"].values, lon, lat, subject)
    assert report.warnings[0].code == "SPDE-D013"


def test_the_antimeridian_is_noticed_and_the_poles_are_refused(network, subject):
    lat, lon, alt = coordinates(network)
    across = (lon + 177 + 180) % 360 - 180
    assert check_coordinates(lat, across, alt, subject).notices[0].code == "SPDE-D022"
    report = check_coordinates(lat + 39, lon, alt, subject)
    assert "projection" in report.errors[0].what and report.errors[0].code == "SPDE-D021"


def test_missing_coordinates_are_errors(network, subject):
    lat, lon, alt = coordinates(network)
    alt[2] = np.nan
    assert "station S002" in check_coordinates(lat, lon, alt, subject).errors[0].where


def test_all_real_networks_pass_as_what_they_are_and_fail_as_what_they_are_not(shared_data):
    z = np.load(shared_data / "metar_1993" / "observations.npz")
    p = 100.0 * z["obs"][..., 2]
    subject = Subject("metar")
    assert check_pressure_profile(p, z["alt_m"], subject).errors[0].code == "SPDE-D016"
    assert check_pressure_profile(p, z["alt_m"], subject, kind=PressureKind.SEA_LEVEL).ok
    z = np.load(shared_data / "inmet_south" / "observations.npz")
    obs = z["obs"][::23]
    assert check_pressure_profile(100.0 * obs[..., 2], z["alt_m"], subject).ok
    ff, _ = wind_speed_direction(obs[..., 0], obs[..., 1])
    for name, unit, values in (
        ("p", "hPa", obs[..., 2]),
        ("t", "degC", obs[..., 3]),
        ("rh", "%", obs[..., 4]),
        ("ff", "m/s", ff),
    ):
        assert len(check_values(name, values, unit, subject)) == 0
    assert not check_values("p", obs[..., 2], "Pa", subject).ok
    assert not check_values("t", obs[..., 3], "K", subject).ok
    assert not check_values("rh", obs[..., 4], "1", subject).ok


def test_one_mistyped_altitude_is_no_network_in_feet(network, subject):
    lat, lon, alt = (network[c].values.copy() for c in ("lat", "lon", "alt"))
    alt[4] = 9999.0
    (problem,) = check_coordinates(lat, lon, alt, subject).errors
    assert problem.code == "SPDE-D015" and "station S004" in problem.where
    assert problem.do.endswith(f"{subject.command} --drop S004") and "alt=ft" not in problem.do
    # Nor do feet, once they are declared, lead back: without that station, metres do.
    (problem,) = check_pressure_profile(network["p"].values, alt * 0.3048, subject).errors
    assert problem.do.endswith(f"{subject.command} --drop S004 --unit alt=m")


def test_a_pressure_that_no_unit_explains_is_not_called_mercury(network, subject):
    alt = network["alt"].values
    (problem,) = check_pressure_profile(network["p"].values * 0.88, alt, subject).errors
    assert "mmHg" not in problem.do and problem.do.endswith("--trust p")
    (problem,) = check_pressure_profile(network["p"].values * 0.750062, alt, subject).errors
    assert problem.do.endswith("--unit p=mmHg")
