"""How a column map meets a table: columns that are not there, lists of stations, names of folders, spreadsheets."""

import zipfile

import numpy as np
import pytest

from fields.errors import DataError, UsageError
from fields.readers.column_map import load_map, shipped_map
from reader_files import Weather, open_source, read_all, write_rows

WEATHER = Weather(4, 30)
MAP = """
[time]
columns = ["time"]
[station]
id = "station"
[variables]
t = {{ column = "{t}", unit = "degC" }}
rh = {{ column = "rh", unit = "%"{rest} }}
"""


def written(tmp_path, t="t", rest="", rows=None, text=MAP):
    (tmp_path / "m.toml").write_text(text.format(t=t, rest=rest), encoding="utf-8")
    return write_rows(tmp_path / "obs.csv", rows or WEATHER.rows())


def source_of(path, tmp_path, **options):
    return open_source(path, tmp_path, column_map=str(tmp_path / "m.toml"), **options)


def test_a_mapped_column_that_is_not_there_is_refused_with_the_nearest(tmp_path):
    rows = [{"Temp": row["t"], **{n: v for n, v in row.items() if n != "t"}} for row in WEATHER.rows()]
    path = written(tmp_path, t="TEMP_C", rows=rows)
    with pytest.raises(DataError, match=r"no column 'TEMP_C' \(t\)") as caught:
        source_of(path, tmp_path)
    assert 'column = "Temp"' in caught.value.do and "optional = true" in caught.value.do
    assert caught.value.code == "SPDE-D124"


def test_a_column_that_is_optional_may_be_absent(tmp_path):
    rows = [{n: v for n, v in row.items() if n != "rh"} for row in WEATHER.rows()]
    with pytest.raises(DataError, match="'rh'"):
        source_of(written(tmp_path, rows=rows), tmp_path)
    assert source_of(written(tmp_path, rest=", optional = true", rows=rows), tmp_path).variables == ("t",)
    assert source_of(written(tmp_path, rows=rows, text="optional = true\n" + MAP), tmp_path).variables == ("t",)


def test_a_file_of_a_folder_that_lacks_a_column_is_named(tmp_path):
    folder = tmp_path / "obs"
    folder.mkdir()
    written(tmp_path)
    write_rows(folder / "a.csv", WEATHER.rows())
    write_rows(folder / "b.csv", [{n: v for n, v in row.items() if n != "rh"} for row in WEATHER.rows()])
    with pytest.raises(DataError, match=r"b\.csv has no column 'rh'"):
        source_of(folder, tmp_path)


def test_every_shipped_map_says_that_its_columns_are_optional():
    from fields.readers.column_map import shipped_maps

    for name in shipped_maps():
        assert all(column.optional for column in shipped_map(name).variables.values())


def test_a_shipped_map_wins_over_a_folder_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inmet").mkdir()
    assert load_map("inmet") == shipped_map("inmet")


LIST_MAP = """
[time]
columns = ["time"]
[station]
from = "file"
key = "station"
id = "ID"
lat = "Latitude"
lon = "Longitude"
alt = "Altitude"
name = "Name"
file = "network.csv"
[variables]
t = { column = "t", unit = "degC" }
"""


def station_list(path, **changes):
    rows = [{"ID": WEATHER.ids[s], "Name": f"Station {s}", "Latitude": WEATHER.lat[s], "Longitude": WEATHER.lon[s],
             "Altitude": WEATHER.alt[s], **changes} for s in range(4)]  # fmt: skip
    return write_rows(path, rows)


@pytest.mark.parametrize("place", ["maps", "obs"])
def test_the_list_that_a_map_names_lies_beside_the_source_or_the_map(tmp_path, place):
    for name in ("maps", "obs"):
        (tmp_path / name).mkdir()
    path = write_rows(tmp_path / "obs" / "obs.csv", WEATHER.rows())
    (tmp_path / "maps" / "m.toml").write_text(LIST_MAP, encoding="utf-8")
    with pytest.raises(UsageError, match="there is no file"):
        open_source(path, tmp_path, column_map=str(tmp_path / "maps" / "m.toml"))
    station_list(tmp_path / place / "network.csv")
    source = open_source(path, tmp_path, column_map=str(tmp_path / "maps" / "m.toml"))
    assert source.network.names is not None
    assert source.network.names.tolist() == [f"Station {s}" for s in range(4)]
    assert np.allclose(source.network.lat, WEATHER.lat)


def test_a_list_beside_positions_in_columns_says_what_to_write_instead(tmp_path):
    path = written(tmp_path)
    listed = station_list(tmp_path / "network.csv")
    with pytest.raises(UsageError, match="positions from the columns of every row") as caught:
        source_of(path, tmp_path, stations=str(listed))
    assert 'from = "file" and key = "station"' in caught.value.do
    assert "stationpde data map" in caught.value.do
    assert caught.value.code == "SPDE-D134"


def test_a_list_without_altitudes_advises_an_elevation_model(tmp_path):
    path = write_rows(tmp_path / "obs.csv", WEATHER.rows())
    (tmp_path / "m.toml").write_text(LIST_MAP, encoding="utf-8")
    rows = [{"ID": n, "Name": n, "Latitude": 45.0, "Longitude": 5.0} for n in WEATHER.ids]
    write_rows(tmp_path / "network.csv", rows)
    with pytest.raises(DataError, match="no column 'Altitude'") as caught:
        source_of(path, tmp_path)
    assert "--dem FILE" in caught.value.do
    source = source_of(path, tmp_path, dem="relief.nc")
    assert np.isnan(source.network.alt).all()
    assert np.allclose(read_all(source)["t"], WEATHER.t)


def workbook(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return path


@pytest.mark.parametrize("name", ["obs.xlsx", "obs.zip", "obs.csv", "obs.xls", "obs.ods"])
def test_a_spreadsheet_is_answered_with_what_to_do(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".xls"):
        path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    elif name.endswith(".ods"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
    else:
        workbook(path)
    for options in ({}, {"name": "table"}):
        with pytest.raises(DataError, match="is a spreadsheet") as caught:
            open_source(path, tmp_path, **options)
        assert "as CSV (UTF-8)" in caught.value.do


def test_a_folder_of_spreadsheets_is_answered_the_same_way(tmp_path):
    (tmp_path / "obs").mkdir()
    workbook(tmp_path / "obs" / "2023.xlsx")
    with pytest.raises(DataError, match=r"2023\.xlsx is a spreadsheet"):
        open_source(tmp_path / "obs", tmp_path)
