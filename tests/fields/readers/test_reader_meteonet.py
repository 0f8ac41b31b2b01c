"""MeteoNet: both date forms, archives inside archives, the value on the hour, stations without leading zeros."""

import gzip
import io
import tarfile

import numpy as np
import pytest

from fields.errors import DataError
from reader_files import Weather, open_source, read_all

HEADER = "number_sta,lat,lon,height_sta,date,dd,ff,precip,hu,td,t,psl"


def table(weather: Weather, form: str = "%Y%m%d %H:%M") -> bytes:
    lines = [HEADER]
    for t, time in enumerate(weather.time):
        date = time.astype(object).strftime(form)
        for s in range(len(weather.ids)):
            speed = np.hypot(weather.u[t, s], weather.v[t, s])
            direction = np.rad2deg(np.arctan2(-weather.u[t, s], -weather.v[t, s])) % 360
            psl = "101320.0" if s % 3 == 0 else ""
            lines.append(
                f"{14066001 + s},{weather.lat[s]},{weather.lon[s]},{weather.alt[s]},{date},"
                f"{direction:.1f},{speed:.1f},0.0,"
                f"{weather.rh[t, s]},,{weather.t[t, s] + 273.15:.2f},{psl}"
            )
    return "\n".join([*lines, ""]).encode()


def tar_of(**members: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("__", "."))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def weather() -> Weather:
    return Weather(6, 30, hours=0.1)


@pytest.mark.parametrize("form", ["%Y%m%d %H:%M", "%Y-%m-%d %H:%M:%S"])
def test_both_date_forms_give_the_values_on_the_hour(tmp_path, weather, form):
    (tmp_path / "NW2021.csv").write_bytes(table(weather, form))
    source = open_source(tmp_path / "NW2021.csv", tmp_path)
    assert (source.reader, source.axis.step, source.axis.count) == ("meteonet", 3600, 3)
    assert np.allclose(read_all(source)["t"], weather.t[::10] + 273.15, atol=1e-3)
    assert source.pressure_kind == "sea_level"
    assert source.units["psl"] == "Pa"


def test_station_numbers_are_kept_as_they_are_written(tmp_path, weather):
    (tmp_path / "NW2021.csv").write_bytes(table(weather))
    assert open_source(tmp_path / "NW2021.csv", tmp_path).network.ids[0] == "14066001"


ARCHIVES = {
    "NW2021.csv.gz": lambda text: gzip.compress(text),
    "NW_ground_stations_2021.tar": lambda text: tar_of(NW2021__csv=text),
    "NW_ground_stations_2021.tar.gz": lambda text: gzip.compress(tar_of(NW2021__csv=text)),
    "NW_ground_stations_2022.tar.gz": lambda text: gzip.compress(tar_of(NW2021__tar=tar_of(NW2021__csv=text))),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_are_read_through_all_their_layers(tmp_path, weather, name):
    (tmp_path / name).write_bytes(ARCHIVES[name](table(weather)))
    source = open_source(tmp_path / name, tmp_path, "meteonet")
    assert np.allclose(read_all(source)["t"], weather.t[::10] + 273.15, atol=1e-3)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "work"])


def test_the_years_of_a_folder_make_one_record(tmp_path, weather):
    folder = tmp_path / "NW"
    folder.mkdir()
    later = Weather(6, 30, hours=0.1)
    later.time = later.time + np.timedelta64(3 * 3600, "s")
    (folder / "NW_ground_stations_2021.tar.gz").write_bytes(gzip.compress(tar_of(NW2021__csv=table(weather))))
    (folder / "NW_ground_stations_2022.tar.gz").write_bytes(gzip.compress(tar_of(NW2022__csv=table(later))))
    source = open_source(folder, tmp_path)
    assert (source.reader, source.axis.count) == ("meteonet", 6)


def test_a_tolerance_takes_the_nearest_value_where_the_hour_is_missing(tmp_path, weather):
    weather.t[10] = np.nan
    text = table(weather).replace(b",nan,", b",,")
    (tmp_path / "NW2021.csv").write_bytes(text)
    exact = read_all(open_source(tmp_path / "NW2021.csv", tmp_path))
    near = read_all(open_source(tmp_path / "NW2021.csv", tmp_path / "w", tolerance=360))
    assert np.isnan(exact["t"][1]).all()
    assert np.allclose(near["t"][1], weather.t[9] + 273.15, atol=1e-3)
    assert np.allclose(near["t"][2], weather.t[20] + 273.15, atol=1e-3)


def test_calm_air_has_direction_zero_and_speed_zero(tmp_path, weather):
    lines = table(weather).decode().splitlines()
    cells = lines[1].split(",")
    cells[5], cells[6] = "0.0", "0.0"
    (tmp_path / "NW2021.csv").write_text("\n".join([lines[0], ",".join(cells), *lines[2:], ""]))
    tables = read_all(open_source(tmp_path / "NW2021.csv", tmp_path))
    assert (tables["dd"][0, 0], tables["ff"][0, 0]) == (0.0, 0.0)


def test_a_line_cut_in_the_middle_is_refused_with_its_number(tmp_path, weather):
    (tmp_path / "NW2021.csv").write_bytes(table(weather)[:-40])
    with pytest.raises(DataError, match="line 181: Expected 12 columns"):
        open_source(tmp_path / "NW2021.csv", tmp_path)


def test_the_real_january_in_brittany_is_read(shared_data, tmp_path):
    source = open_source(shared_data / "meteonet_layout", tmp_path)
    tables = read_all(source)
    assert (source.reader, len(source.network), source.axis.count) == ("meteonet", 46, 744)
    assert np.isnan(tables["psl"]).mean() == pytest.approx(0.68, abs=0.02)
    assert 270 < np.nanmedian(tables["t"]) < 290
