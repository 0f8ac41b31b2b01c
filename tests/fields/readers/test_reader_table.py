"""Tables: any dialect that is declared or found and said, codes for missing counted, rows in any order."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fields.errors import DataError, UsageError
from fields.readers import gathering, spool
from reader_files import Weather, open_source, read_all, write_rows


@pytest.fixture
def weather() -> Weather:
    return Weather(6, 60)


def equals(source, weather: Weather, atol: float = 1e-3) -> bool:
    tables = read_all(source)
    order = [list(source.network.ids).index(i) for i in weather.ids]
    return all(np.allclose(tables[n][:, order], getattr(weather, n), atol=atol) for n in ("u", "v", "p", "t", "rh"))


DIALECTS = [
    {"separator": ","},
    {"separator": ";", "decimal": ","},
    {"separator": "\t"},
    {"separator": "|", "end": "\r\n"},
    {"separator": ";", "end": "\r\n", "bom": True},
    {"separator": ";", "decimal": ",", "encoding": "latin-1"},
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tidy_table_is_read_in_any_dialect(tmp_path, weather, dialect):
    path = write_rows(tmp_path / "obs.csv", weather.rows(), **dialect)
    assert equals(open_source(path, tmp_path), weather)


def test_the_dialect_that_was_found_is_said(tmp_path, weather):
    path = write_rows(tmp_path / "obs.csv", weather.rows(), separator=";", decimal=",")
    notices = [notice.what for notice in open_source(path, tmp_path).findings().notices]
    assert "the file read as utf-8, semicolon separated, decimal comma" in notices


def test_names_in_latin_1_are_read(tmp_path, weather):
    rows = [{**row, "name": "São Paulo" if row["station"] == "S001" else "Orly"} for row in weather.rows()]
    source = open_source(write_rows(tmp_path / "obs.csv", rows, encoding="latin-1"), tmp_path)
    assert source.network.names[list(source.network.ids).index("S001")] == "São Paulo"


def test_rows_may_come_in_any_order(tmp_path, weather):
    rows = weather.rows()
    np.random.default_rng(1).shuffle(rows)
    assert equals(open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path), weather)


def test_many_runs_on_disk_read_like_one(tmp_path, weather, monkeypatch):
    monkeypatch.setattr(spool, "RUN_ROWS", 37)
    monkeypatch.setattr(spool.Spool.__init__, "__defaults__", (37,))
    monkeypatch.setattr(gathering.blocks, "__defaults__", (4096,))
    rows = weather.rows()
    np.random.default_rng(1).shuffle(rows)
    source = open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert len(list((tmp_path / "work" / "rows").glob("run-*.bin"))) > 5
    assert equals(source, weather)
    assert np.allclose(source.read(13, 29)["t"], read_all(source)["t"][13:29], equal_nan=True)


def test_one_file_for_each_station_reads_like_one_long_table(tmp_path, weather):
    folder = tmp_path / "stations"
    folder.mkdir()
    for name in weather.ids:
        write_rows(folder / f"{name}.csv", [row for row in weather.rows() if row["station"] == name])
    assert equals(open_source(folder, tmp_path), weather)


@pytest.mark.parametrize("as_text", [True, False])
def test_parquet_reads_like_text(tmp_path, weather, as_text):
    rows = weather.rows()
    table = pa.Table.from_pylist(rows)
    if not as_text:
        stamps = pa.array(np.repeat(weather.time, len(weather.ids)))
        table = table.set_column(1, "time", stamps)
    parquet.write_table(table, tmp_path / "obs.parquet")
    assert equals(open_source(tmp_path / "obs.parquet", tmp_path), weather)


def test_times_with_an_offset_of_their_own_need_no_zone(tmp_path, weather):
    rows = [{**row, "time": row["time"] + "+02:00"} for row in weather.rows()]
    source = open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert source.axis.start == int(weather.time[0].astype(np.int64)) - 7200


def test_a_zone_given_by_the_user_moves_the_axis(tmp_path, weather):
    source = open_source(write_rows(tmp_path / "obs.csv", weather.rows()), tmp_path, zone="UTC+8")
    assert source.axis.start == int(weather.time[0].astype(np.int64)) - 8 * 3600
    assert source.zone == "UTC+8"


# ---- missing codes ----------------------------------------------------------------------------------------------


def test_text_codes_for_missing_are_recognised_and_counted(tmp_path, weather):
    rows = weather.rows()
    for row, code in zip(rows, ("M", "VRB", "T", "n/a", "///", "")):
        row["t"] = code
    source = open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert np.isnan(read_all(source)["t"]).sum() == 6
    # The empty cell is no code.
    assert "5 values of t are codes for missing" in [notice.what for notice in source.findings().notices]


def test_a_text_that_is_no_number_is_refused_with_its_line(tmp_path, weather):
    rows = weather.rows()
    rows[100]["rh"] = "humid"
    with pytest.raises(DataError, match="line 102: 'humid' is not a number") as caught:
        open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert 'missing = ["humid"]' in caught.value.do


def test_the_line_is_right_far_into_a_long_file(tmp_path, monkeypatch):
    monkeypatch.setattr(gathering.blocks, "__defaults__", (4096,))
    rows = Weather(6, 200).rows()
    rows[1100]["rh"] = "humid"
    with pytest.raises(DataError, match="line 1,102: 'humid'"):
        open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)


@pytest.mark.parametrize("time", ["yesterday", "2021-02-30T00:00", "2021-03-01T23:59:60", "", "1e9"])
def test_a_time_that_is_none_is_refused_with_its_line(tmp_path, weather, time):
    rows = weather.rows()
    rows[4]["time"] = time
    with pytest.raises(DataError, match=r"line 6: ") as caught:
        open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert caught.value.code == "SPDE-D010"


# ---- duplicates, clocks, moves ---------------------------------------------------------------------------------


def test_equal_duplicates_are_merged_with_a_notice(tmp_path, weather):
    rows = weather.rows()
    source = open_source(write_rows(tmp_path / "obs.csv", [*rows, *rows[:7]]), tmp_path)
    assert equals(source, weather)
    assert "7 rows were there twice and were merged" in [notice.what for notice in source.findings().notices]


def test_duplicates_that_complete_each_other_are_joined(tmp_path, weather):
    rows = weather.rows()
    rows.append({**rows[0], "t": float("nan")})
    rows[0] = {**rows[0], "p": float("nan")}
    assert equals(open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path), weather)


@pytest.fixture
def contradiction(tmp_path, weather):
    rows = weather.rows()
    return write_rows(tmp_path / "obs.csv", [*rows, {**rows[0], "t": rows[0]["t"] + 4}])


def test_conflicting_duplicates_are_refused_with_both_ways_out(tmp_path, contradiction):
    source = open_source(contradiction, tmp_path)
    with pytest.raises(DataError, match="S000 at 2021-03-01 00:00:00") as caught:
        read_all(source)
    assert caught.value.code == "SPDE-D034"
    assert "--on-duplicate first   or mean" in caught.value.do


@pytest.mark.parametrize(("choice", "shift"), [("first", 0.0), ("mean", 2.0)])
def test_conflicting_duplicates_are_settled_as_asked(tmp_path, weather, contradiction, choice, shift):
    source = open_source(contradiction, tmp_path, on_duplicate=choice)
    assert read_all(source)["t"][0, 0] == pytest.approx(weather.t[0, 0] + shift, abs=1e-4)
    assert source.findings().count("warning") == 1


def test_the_mean_of_wind_directions_is_the_vectors(tmp_path):
    place = {"lat": 1.0, "lon": 1.0, "alt": 1.0}
    rows = [
        {"station": "A", "time": f"2021-01-01T{h:02d}:00", **place, "ff": 10.0, "dd": d, "t": 10.0}
        for h, d in ((0, 350.0), (0, 10.0), (1, 90.0))
    ]
    tables = read_all(open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path, on_duplicate="mean"))
    assert tables["dd"][0, 0] == pytest.approx(360.0, abs=1e-3)
    assert tables["ff"][0, 0] == pytest.approx(10 * np.cos(np.deg2rad(10)), abs=1e-4)


def local_rows(weather: Weather, zone: str):
    """Write rows as a clock with summer time shows them."""
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    rows = weather.rows()
    for row in rows:
        utc = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC)
        row["time"] = utc.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M")
    return rows


@pytest.mark.parametrize("start", ["2021-03-25T00:00", "2021-10-28T00:00"])
def test_a_named_zone_undoes_summer_time(tmp_path, start):
    weather = Weather(6, 24 * 6)
    weather.time = weather.time - weather.time[0] + np.datetime64(start, "s")
    path = write_rows(tmp_path / "obs.csv", local_rows(weather, "Europe/Paris"))
    source = open_source(path, tmp_path, zone="Europe/Paris")
    assert source.axis.count == 24 * 6
    assert equals(source, weather)


def test_an_undeclared_clock_with_summer_time_is_found_out_and_its_zone_asked_for(tmp_path):
    weather = Weather(6, 24 * 6)
    weather.time = weather.time - weather.time[0] + np.datetime64("2021-10-28T00:00", "s")
    source = open_source(write_rows(tmp_path / "obs.csv", local_rows(weather, "Europe/Paris")), tmp_path)
    with pytest.raises(DataError, match="summer time") as caught:
        read_all(source)
    assert caught.value.code == "SPDE-D037"
    assert "--time-zone Area/City" in caught.value.do


def test_an_undeclared_clock_put_forward_twice_is_found_out_too(tmp_path):
    weather = Weather(6, 24 * 8)
    hours = np.arange(24 * 4) * np.timedelta64(3600, "s")
    weather.time = np.concatenate([np.datetime64(day, "s") + hours for day in ("2021-03-26", "2022-03-25")])
    rows = local_rows(weather, "Europe/Paris")
    report = open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path).findings()
    assert [problem.code for problem in report.errors] == ["SPDE-D037"]


def test_a_station_that_moves_is_refused_and_can_be_split(tmp_path, weather):
    rows = weather.rows()
    for row in rows[180:]:
        if row["station"] == "S002":
            row["lat"] += 0.5
    path = write_rows(tmp_path / "obs.csv", rows)
    with pytest.raises(DataError, match="move") as caught:
        open_source(path, tmp_path)
    assert "station S002" in caught.value.where
    source = open_source(path, tmp_path / "again", on_move="split")
    assert "S002@2" in source.network.ids
    early, late = (read_all(source)["t"][:, list(source.network.ids).index(i)] for i in ("S002", "S002@2"))
    assert np.isfinite(early).sum() == 30
    assert np.array_equal(np.isnan(early), ~np.isnan(late))


def test_a_position_given_with_fewer_digits_is_the_same_station(tmp_path, weather):
    rows = weather.rows()
    for row in rows[180:]:
        row["lat"] = round(row["lat"], 2)
    assert len(open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path).network) == 6


# ---- maps -------------------------------------------------------------------------------------------------------


def test_columns_that_no_map_knows_are_refused_with_their_names(tmp_path):
    path = write_rows(tmp_path / "obs.csv", [{"where": "A", "when": "2021-01-01", "warm": 3.0}])
    with pytest.raises(DataError, match="no shipped column map") as caught:
        open_source(path, tmp_path)
    assert "where, when, warm" in caught.value.where


MAP = """
[file]
separator = "whitespace"
missing = ["-9999"]
[time]
columns = ["year", "month", "day", "hour"]
format = "%Y %m %d %H"
zone = "UTC"
[station]
from = "name"
pattern = "^station-([A-Z0-9]+)"
file = "list.csv"
id = "id"
[variables]
t = { column = "airtemp", unit = "degC", scale = 0.1 }
ff = { column = "speed", unit = "kt" }
"""


def test_blank_separated_files_with_a_list_of_stations_are_read_by_a_map(tmp_path):
    folder = tmp_path / "isd"
    folder.mkdir()
    (tmp_path / "map.toml").write_text(MAP)
    (folder / "list.csv").write_text("id,lat,lon,alt\nA1,10,20,30\nB2,11,21,31\n")
    (folder / "station-A1-2021.txt").write_text(
        "year month  day hour  airtemp  speed\n2021   1   1  0   125   10\n2021  1 1   1 -9999   12\n"
    )
    (folder / "station-B2-2021.txt").write_text("year month day hour airtemp speed\n 2021 1 1 0 -31 -9999 \n")
    with pytest.raises(DataError):  # the list is no table of observations
        open_source(folder, tmp_path, column_map=str(tmp_path / "map.toml"))
    (folder / "list.csv").rename(tmp_path / "list.csv")
    source = open_source(
        folder, tmp_path / "w", column_map=str(tmp_path / "map.toml"), stations=str(tmp_path / "list.csv")
    )
    tables = read_all(source)
    assert source.network.ids.tolist() == ["A1", "B2"]
    assert np.allclose(tables["t"], [[12.5, -3.1], [np.nan, np.nan]], equal_nan=True)
    assert np.allclose(tables["ff"], [[10, np.nan], [12, np.nan]], equal_nan=True)


def test_a_station_that_the_list_lacks_is_named(tmp_path, weather):
    (tmp_path / "map.toml").write_text(
        '[station]\nfrom = "file"\nkey = "station"\nid = "id"\n[variables]\nt = { column = "t", unit = "degC" }\n'
    )
    (tmp_path / "list.csv").write_text("id,lat,lon,alt\nS000,1,2,3\n")
    path = write_rows(tmp_path / "obs.csv", weather.rows())
    with pytest.raises(DataError, match="5 stations are not in the list"):
        open_source(path, tmp_path, column_map=str(tmp_path / "map.toml"), stations=str(tmp_path / "list.csv"))


def test_a_map_that_needs_a_list_asks_for_it(tmp_path, weather):
    (tmp_path / "map.toml").write_text('[station]\nfrom = "file"\n[variables]\nt = { column = "t", unit = "degC" }\n')
    with pytest.raises(UsageError, match="list of stations"):
        open_source(write_rows(tmp_path / "o.csv", weather.rows()), tmp_path, column_map=str(tmp_path / "map.toml"))


ASOS = """#DEBUG: Format Typ    -> comma
station,valid,lon,lat,elevation,tmpf,dwpf,relh,drct,sknt,mslp
DSM,2021-01-01 00:54,-93.66,41.53,292.00,28.04,24.08,84.75,VRB,3.00,1015.50
DSM,2021-01-01 01:54,-93.66,41.53,292.00,26.96,M,M,350.00,10.00,M
DSM,2021-01-01 02:13,-93.66,41.53,292.00,25.00,M,M,340.00,12.00,M
DSM,2021-01-01 02:54,-93.66,41.53,292.00,26.06,23.00,88.10,360.00,T,1016.10
"""


def test_an_asos_table_is_read_by_the_shipped_map(tmp_path):
    (tmp_path / "asos.csv").write_text(ASOS)
    source = open_source(tmp_path / "asos.csv", tmp_path, column_map="asos")
    tables = read_all(source)
    assert source.axis.start == int(np.datetime64("2021-01-01T01:00", "s").astype(np.int64))
    assert np.allclose(tables["t"][:, 0], [28.04, 26.96, 26.06])
    assert np.allclose(tables["dd"][:, 0], [np.nan, 350, 360], equal_nan=True)
    assert np.isnan(tables["ff"][2, 0])


NOAA = "\n".join([
    '"STATION","DATE","SOURCE","LATITUDE","LONGITUDE","ELEVATION","NAME","REPORT_TYPE","WND","TMP","DEW","SLP"',
    '"72546014933","2021-01-01T00:54:00","7","41.5","-93.7","292.0","DES MOINES, IA US","FM-15",'
    '"350,5,N,0046,5","-0022,5","-0044,5","10155,5"',
    '"72546014933","2021-01-01T01:54:00","7","41.5","-93.7","292.0","DES MOINES, IA US","FM-15",'
    '"999,9,V,0015,5","+0011,5","+9999,9","99999,9"',
    "",
])  # fmt: skip


def test_a_noaa_hourly_file_with_compound_cells_is_read_by_the_shipped_map(tmp_path):
    (tmp_path / "noaa.csv").write_text(NOAA)
    source = open_source(tmp_path / "noaa.csv", tmp_path, column_map="noaa_hourly")
    tables = read_all(source)
    assert np.allclose(tables["t"][:, 0], [-2.2, 1.1])
    assert np.allclose(tables["ff"][:, 0], [4.6, 1.5])
    assert np.allclose(tables["dd"][:, 0], [350, np.nan], equal_nan=True)
    assert np.allclose(tables["psl"][:, 0], [1015.5, np.nan], equal_nan=True)
    assert source.network.names.tolist() == ["DES MOINES, IA US"]


def test_raw_inmet_files_equal_the_prepared_array_where_both_exist(shared_data, tmp_path):
    source = open_source(shared_data / "inmet_raw_sample", tmp_path)
    prepared = np.load(shared_data / "inmet_south" / "observations.npz")
    tables, ids = read_all(source), list(prepared["station_id"])
    both = [i for i in source.network.ids if i in ids]
    assert both == ["A801"]
    there, here = ids.index("A801"), list(source.network.ids).index("A801")
    for place, name in ((2, "p"), (3, "t"), (4, "rh")):
        assert np.array_equal(prepared["obs"][:8760, there, place], tables[name][:, here], equal_nan=True)
    assert source.network.alt[here] == pytest.approx(prepared["alt_m"][there], abs=1e-3)


def test_the_names_of_raw_inmet_files_are_those_in_their_headers(shared_data, tmp_path):
    network = open_source(shared_data / "inmet_raw_sample", tmp_path).network
    assert dict(zip(network.ids, network.names))["A812"] == "CACAPAVA DO SUL"
