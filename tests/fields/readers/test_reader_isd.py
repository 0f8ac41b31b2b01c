"""NOAA's surface hourly data as text: ISD and ISD-Lite, by hand, with their oddities and faults."""

import gzip

import numpy as np
import pytest

from fields.errors import DataError, UsageError
from fields.readers import detect
from foreign_tables import TABLES
from reader_files import Weather, open_source, read_all, write_rows

WEATHER = Weather(3, 30)


def wind(w, t, s):
    towards = np.rad2deg(np.arctan2(-w.u[t, s], -w.v[t, s])) % 360
    return round(float(towards)) % 360, float(np.hypot(w.u[t, s], w.v[t, s]))


def lite(w, s):
    lines = []
    for t, time in enumerate(w.time):
        at = time.astype(object)
        dd, ff = wind(w, t, s)
        tt = -9999 if t == 4 else round(w.t[t, s] * 10)
        numbers = (tt, 50, 10132, dd, round(ff * 10), 4, 0, -9999)
        lines.append(f"{at:%Y %m %d %H} " + "".join(f"{number:6d}" for number in numbers)[1:])
    return "\n".join([*lines, ""]).encode()


def names(s):
    return f"7220{s:02d}-12839"


def folder_of(tmp_path, change=lambda s, content: content):
    folder = tmp_path / "lite"
    folder.mkdir()
    for s in range(3):
        (folder / f"{names(s)}-2021.gz").write_bytes(gzip.compress(change(s, lite(WEATHER, s))))
    places = [{"lat": WEATHER.lat[s], "lon": WEATHER.lon[s], "alt_m": WEATHER.alt[s]} for s in range(3)]
    rows = [{"id": names(s), "name": f"PLACE {s}", **place} for s, place in enumerate(places)]
    return folder, str(write_rows(tmp_path / "stations.csv", rows))


def test_isd_lite_is_recognised_and_read_with_a_list_of_stations(tmp_path):
    folder, listed = folder_of(tmp_path)
    source = open_source(folder, tmp_path, stations=listed)
    assert (source.reader, source.axis.step, source.axis.count) == ("isd_lite", 3600, 30)
    assert source.network.ids.tolist() == [names(s) for s in range(3)]
    assert source.network.names.tolist() == ["PLACE 0", "PLACE 1", "PLACE 2"]
    values = read_all(source)
    there = np.arange(30) != 4
    assert np.allclose(values["t"][there], WEATHER.t[there], atol=0.051)
    assert np.isnan(values["t"][4]).all()
    assert np.allclose(values["psl"], 1013.2) and np.allclose(values["td"], 5.0)
    assert source.pressure_kind == "sea_level"
    assert np.allclose(values["ff"], np.hypot(WEATHER.u, WEATHER.v), atol=0.051)


def test_isd_lite_without_a_list_asks_for_one(tmp_path):
    folder, _ = folder_of(tmp_path)
    with pytest.raises(UsageError, match="none is named") as caught:
        open_source(folder, tmp_path)
    assert "--station-list" in caught.value.do


FAULTS = {
    "a letter": (lambda line: line[:15] + b"1x3" + line[18:], r"line 3: .* is not a number", "SPDE-D126"),
    "a short line": (lambda line: line[:20], "line 3 has 20 characters", "SPDE-D123"),
    "a month": (lambda line: b"2021 13" + line[7:], "line 3: '2021 13 1 2' is not a time", "SPDE-D010"),
    "a NUL": (lambda line: line[:20] + b"\0" + line[21:], "NUL", "SPDE-D123"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_line_and_field(tmp_path, fault):
    change, message, code = FAULTS[fault]
    _, listed = folder_of(tmp_path)
    lines = lite(WEATHER, 1).split(b"\n")
    lines[2] = change(lines[2])
    path = tmp_path / f"{names(1)}-2021"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=message) as caught:
        open_source(path, tmp_path, stations=listed)
    assert caught.value.code == code
    if fault == "a letter":
        assert "t, characters 14 to 19" in str(caught.value)


def test_a_file_under_another_name_says_what_is_asked_of_it(tmp_path):
    _, listed = folder_of(tmp_path)
    (tmp_path / "mine.txt").write_bytes(lite(WEATHER, 0))
    with pytest.raises(DataError, match="does not begin with a station's id"):
        open_source(tmp_path / "mine.txt", tmp_path, stations=listed)


def full(w, t, s, quality="1"):
    at = w.time[t].astype(object)
    dd, ff = wind(w, t, s)
    place = f"{round(w.lat[s] * 1000):+06d}{round(w.lon[s] * 1000):+07d}"
    control = (f"0130{names(s).replace('-', '')}{at:%Y%m%d%H%M}4{place}"
               f"FM-15{round(w.alt[s]):+05d}KXYZ V020")  # fmt: skip
    air = f"{round(w.t[t, s] * 10):+05d}{quality}{50:+05d}1{10132:05d}1"
    return f"{control}{dd:03d}1N{round(ff * 10):04d}1220001CN0160001N1{air}ADDAA101000095REMSYN004"


def full_text(quality=lambda t: "1"):
    return "\n".join(full(WEATHER, t, s, quality(t)) for t in range(30) for s in range(3)).encode() + b"\n"


def test_isd_has_its_positions_in_every_line(tmp_path):
    (tmp_path / "isd.txt").write_bytes(full_text(lambda t: "3" if t == 7 else "1"))
    source = open_source(tmp_path / "isd.txt", tmp_path)
    assert source.reader == "isd"
    assert source.network.ids.tolist() == [names(s).replace("-", "") for s in range(3)]
    assert np.allclose(source.network.lat, WEATHER.lat, atol=6e-4)
    assert np.allclose(source.network.alt, np.round(WEATHER.alt))
    values = read_all(source)
    there = np.arange(30) != 7
    assert np.allclose(values["t"][there], WEATHER.t[there], atol=0.051)
    assert np.isnan(values["t"][7]).all()  # erroneous by its quality code
    assert np.allclose(values["dd"], [[wind(WEATHER, t, s)[0] for s in range(3)] for t in range(30)])
    assert "values of t are codes" in " ".join(problem.what for problem in source.findings())


def test_a_table_is_none_of_these(tmp_path):
    assert detect(write_rows(tmp_path / "obs.csv", WEATHER.rows())).name == "table"


def test_products_of_the_german_service_are_merged_by_the_shipped_map(tmp_path):
    weather, folder = Weather(3, 30), tmp_path / "dwd"
    folder.mkdir()
    _, listed = TABLES["dwd"].write(tmp_path, weather)
    for product, header, cells in (
        ("tu", "STATIONS_ID;MESS_DATUM;QN_9;TT_TU;RF_TU;eor",
         lambda t, s: f"{weather.t[t, s]:6.1f};{weather.rh[t, s]:6.1f}"),
        ("p0", "STATIONS_ID;MESS_DATUM;QN_8;   P;  P0;eor", lambda t, s: f"  -999;{weather.p[t, s]:7.1f}"),
    ):  # fmt: skip
        for s in range(3):
            rows = [f"{44 + s:11d};{time.astype(object):%Y%m%d%H};    3;{cells(t, s)};eor"
                    for t, time in enumerate(weather.time)]  # fmt: skip
            (folder / f"produkt_{product}_stunde_{s}.txt").write_text("\n".join([header, *rows, ""]))
    source = open_source(folder, tmp_path, column_map="dwd_hourly", stations=str(listed))
    values = read_all(source)
    assert source.network.ids.tolist() == ["44", "45", "46"]
    for name in ("t", "rh", "p"):
        assert np.allclose(values[name], getattr(weather, name), atol=0.051), name
