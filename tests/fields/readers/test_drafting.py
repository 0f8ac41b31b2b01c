"""Drafting a column map: what is recognised in foreign tables, what is unsure, and what is refused."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hostile_corpus
from fields import store
from fields.errors import DataError, FieldsError, UsageError
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions, draft_map
from fields.readers.column_map import parse_map
from foreign_tables import TABLES
from reader_files import Weather, write_npz, write_rows

SHARED = Path(os.environ.get("STATIONPDE_SHARED", Path(__file__).resolve().parents[4] / "shared")) / "data"
# Long enough for a day above 12, which decides the order of dates.
WEATHER = Weather(4, 300)


def ingest_by_draft(path, folder, stations=None, **options):
    """Draft a map and ingest with it unchanged."""
    draft = draft_map(path, stations=None if stations is None else str(stations))
    (folder / "m.toml").write_text(draft.text, encoding="utf-8")
    read = ReadOptions(
        column_map=str(folder / "m.toml"), stations=None if stations is None else str(stations), **options
    )
    return draft, ingest_files(path, folder / "o.zarr", IngestOptions(read=read, quality=False))


@pytest.mark.parametrize("name", TABLES)
def test_a_foreign_table_is_ingested_by_its_draft_unchanged(tmp_path, name):
    foreign = TABLES[name]
    path, listed = foreign.write(tmp_path, WEATHER)
    draft, result = ingest_by_draft(path, tmp_path, listed)
    ds = store.open(result.path)
    assert ds["station"].values.tolist() == [foreign.ids(s) for s in range(4)]
    assert np.array_equal(ds["time"].values, WEATHER.time.astype("datetime64[ns]"))
    assert np.allclose(ds["lat"], WEATHER.lat, atol=1e-3) and np.allclose(ds["alt"], WEATHER.alt, atol=0.1)
    assert np.allclose(ds["t"], WEATHER.t + 273.15, atol=0.06)
    humid = np.arange(300) != 3 if name == "dwd" else slice(None)
    assert np.allclose(ds["rh"].values[humid], WEATHER.rh[humid] / 100, atol=0.012)
    if name == "dwd":
        assert np.isnan(ds["rh"].values[3]).all()
        return
    if name == "asos":  # its calm has no direction
        assert np.nanmedian(np.abs(ds["u"].values - WEATHER.u)) < 0.05
    else:
        turned = 0.2 if name == "prsa" else 0.02  # radians: 16 points, or whole degrees
        assert np.all(np.abs(ds["u"] - WEATHER.u) < 0.1 + turned * np.hypot(WEATHER.u, WEATHER.v))
        if "p" in draft.variables:
            assert np.allclose(ds["p"] / 100, WEATHER.p, atol=0.06)
    assert ("psl" in draft.variables) == foreign.has_psl


def test_what_is_unsure_is_said_and_what_is_declared_is_not(tmp_path):
    draft = draft_map(TABLES["prsa"].write(tmp_path, WEATHER)[0])
    assert any("whose clock" in line for line in draft.unsure)
    assert any("no positions" in line for line in draft.unsure)
    assert "--station-list stations.csv" in draft.command
    assert 'column = "wd", unit = "compass"' in draft.text
    assert "PM2.5" in draft.text.split("# not read: ")[1]
    (tmp_path / "b").mkdir()
    sure = draft_map(TABLES["aemet"].write(tmp_path / "b", WEATHER)[0])
    assert sure.unsure == ()
    assert 'date_order = "dmy"' in sure.text and 'zone = "UTC"' in sure.text


def test_dates_that_fit_two_orders_are_left_to_the_whole_table(tmp_path):
    path = TABLES["aemet"].write(tmp_path, Weather(5, 48))[0]
    draft = draft_map(path)
    assert "date_order" not in draft.text
    assert any("day/month/year or month/day/year" in line for line in draft.unsure)


@pytest.mark.parametrize(
    ("values", "expected"),
    [(("12.5", "-3.0"), 'unit = "degC"'), (("285.65", "270.15"), 'unit = "K"'), (("95.0", "71.6"), 'unit = "degF"'),
     (("125", "-130"), "scale = 0.1")],
)  # fmt: skip
def test_a_unit_that_nothing_names_is_guessed_from_the_range(tmp_path, values, expected):
    place = {"lat": 45.0, "lon": 5.0, "alt": 100.0}
    rows = [{"station": "A", "time": f"2021-01-01T{h:02d}:00", **place, "temp": values[h % 2]} for h in range(24)]
    table = write_rows(tmp_path / "o.csv", rows)
    line = next(x for x in draft_map(table).text.splitlines() if x.startswith("t ="))
    assert expected in line


@pytest.mark.parametrize(
    ("column", "variable"),
    [("Température de l'air (°C)", "t"), ("Lufttemperatur [°C]", "t"), ("TEMPERATURA DO AR (°C)", "t"),
     ("airTempF", "t"),
     ("Point de rosée (°C)", "td"), ("Taupunkttemperatur", "td"), ("Humidité relative (%)", "rh"),
     ("Luftfeuchte", "rh"),
     ("Humedad relativa", "rh"), ("UMIDADE RELATIVA", "rh"), ("Temperatura máxima (°C)", None), ("Temp. du sol", None),
     ("TEMPERATURA DO BULBO UMIDO", None), ("t_max", None), ("QN_9", None)],
)  # fmt: skip
def test_names_in_five_languages(tmp_path, column, variable):
    value = {"rh": 55.5, "td": 8.5}.get(variable, 62.5 if column.endswith("F") else 12.5)
    rows = [{"station": "A", "time": f"2021-01-01T{h:02d}:00", "lat": 45.0, "lon": 5.0, "alt": 100.0, "dd": 10.5 * h,
             column: value + h / 10} for h in range(24)]  # fmt: skip
    drafted = parse_map(draft_map(write_rows(tmp_path / "o.csv", rows)).text.encode(), "m")
    assert [name for name, c in drafted.variables.items() if column in c.names] == ([variable] if variable else [])


def test_a_table_in_parquet_is_drafted_too(tmp_path):
    columns = {
        name: [row[name] for row in WEATHER.rows()] for name in ("station", "time", "lat", "lon", "alt", "t", "rh")
    }
    columns["temp_c"] = columns.pop("t")
    pq.write_table(pa.table(columns), tmp_path / "obs.parquet")
    _, result = ingest_by_draft(tmp_path / "obs.parquet", tmp_path)
    assert np.allclose(store.open(result.path)["t"], WEATHER.t + 273.15, atol=0.01)


def test_a_table_inside_an_archive_is_drafted_from_its_head(tmp_path):
    path, _ = TABLES["asos"].write(tmp_path, WEATHER)
    (tmp_path / "obs.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert draft_map(tmp_path / "obs.csv.gz").variables == draft_map(path).variables


def test_only_the_head_of_a_table_is_read(tmp_path):
    path, _ = TABLES["asos"].write(tmp_path, Weather(4, 24))
    rows = path.read_bytes().splitlines(keepends=True)
    with path.open("ab") as file:
        file.writelines(rows[3:] * 100)
        file.truncate(4 << 30)  # a sparse tail of zeros: a NUL would be refused if it were seen
    assert "t" in draft_map(path).variables


def test_a_name_that_steers_a_terminal_stays_text(tmp_path):
    rows = [{'te"mp\x1b[31m\\': 12.5, **row} for row in WEATHER.rows()]
    rows = [{n: v for n, v in row.items() if n != "t"} for row in rows]
    draft = draft_map(write_rows(tmp_path / "o.csv", rows))
    assert "\x1b" not in draft.text
    parse_map(draft.text.encode(), "m")


def test_a_list_of_stations_is_no_table_of_observations(tmp_path):
    _, listed = TABLES["synop"].write(tmp_path, WEATHER)
    with pytest.raises(DataError, match="is a list of stations") as caught:
        draft_map(listed)
    assert "--station-list" in caught.value.do


def test_the_list_decides_by_its_ids_which_column_names_the_station(tmp_path):
    path, listed = TABLES["synop"].write(tmp_path, WEATHER)
    text = draft_map(path, stations=str(listed)).text
    assert 'key = "numer_sta"' in text and 'id = "ID"' in text and 'alt = "Altitude"' in text


def test_what_needs_no_map_is_sent_to_its_reader(tmp_path):
    with pytest.raises(UsageError, match="the reader arrays reads it") as caught:
        draft_map(write_npz(tmp_path / "o.npz", WEATHER))
    assert "stationpde data ingest" in caught.value.do


WRONG = {
    "no names": (b"A,2021-01-01T00:00,45.0,5.0,100.0,3.5\n" * 30, "holds values"),
    "a ragged row": (hostile_corpus.TABLE + b"A,2021-01-02T00:00,45.0\n", "line 26 has 3 cells"),
    "an open quote": (hostile_corpus.TABLE.replace(b"A,2021-01-01T05", b'"A,2021-01-01T05'), "quote is opened"),
    "thousands": (hostile_corpus.TABLE.replace(b",7.5", b",1 007.5"), "line 9"),
    "a NUL": (hostile_corpus.TABLE + b"\0\0", "NUL"),
    "JSON": (b'[{"a": 1, "b": 2},\n{"a": 1, "b": 3}]\n', "JSON"),
    "HTML": (b"<html>\n<table>\n</table></html>\n", "XML or HTML"),
    "no time": (b"station,t\nA,1.5\nB,2.5\n", "time"),
    "no variable": (b"station,time,lat,lon,alt,ozone\nA,2021-01-01T00:00,4.5,5.5,1.5,2.5\n", "no column of"),
    "a row without an id": (hostile_corpus.TABLE + b",2021-01-02T00:00,4.5,5.5,1.5,2.5\n", "without a station id"),
    "names alone": (b"station,time,lat,lon,alt,t\n", "no rows"),
    "prose": (b"It was a dark and stormy night\nin the year of the flood\nand all\n", "."),
}  # fmt: skip


def test_hours_from_1_to_24_are_drafted_and_read(tmp_path):
    rows = ["station,date,hour,lat,lon,alt,t"]
    rows += [f"A,2021-06-{1 + h // 24:02d},{h % 24 + 1},45,5,200,{10 + h % 7}" for h in range(48)]
    (tmp_path / "o.csv").write_text("\n".join(rows) + "\n")
    draft, result = ingest_by_draft(tmp_path / "o.csv", tmp_path)
    assert "hours run to 24, which is read as the first moment of the next day" in draft.unsure
    times = store.open(result.path)["time"].values
    assert (str(times[0])[:16], str(times[-1])[:16]) == ("2021-06-01T01:00", "2021-06-03T00:00")


@pytest.mark.parametrize("hour", ["100", "H01", "1.5"])
def test_a_table_whose_hours_are_not_read_is_no_list_of_stations(tmp_path, hour):
    (tmp_path / "o.csv").write_text(f"station,date,hour,lat,lon,alt,t\nA,2021-06-01,{hour},45,5,200,10\n")
    with pytest.raises(DataError, match="recognised as a time with its hour") as caught:
        draft_map(tmp_path / "o.csv")
    assert f"hour = {hour}" in caught.value.where


@pytest.mark.parametrize("fault", WRONG)
def test_a_hostile_table_is_refused_and_not_drafted(tmp_path, fault):
    content, message = WRONG[fault]
    (tmp_path / "o.csv").write_bytes(content)
    with pytest.raises(FieldsError, match=message):
        draft_map(tmp_path / "o.csv")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_file_of_the_hostile_corpus_is_drafted_from_or_waited_for(tmp_path):
    drafted = []
    for path in hostile_corpus.build(tmp_path / "corpus", tmp_path / "canary"):
        try:
            parse_map(draft_map(path).text.encode(), "m")
        except FieldsError:
            continue
        drafted.append(path.name)
    assert not (tmp_path / "canary").exists()
    # Archives whose first table is sound; words among numbers, which the draft calls a mark for missing, unsure.
    assert sorted(drafted) == ["duplicate.tar", "hardlink.tar", "words.csv"]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared data beside the repository")
class TestRealTables:
    """Real tables, ingested by their drafts unchanged and by the shipped maps: the stores hold the same."""

    def same(self, tmp_path, path, map_name, **options):
        _, drafted = ingest_by_draft(path, tmp_path, **options)
        read = ReadOptions(column_map=map_name, **options)
        shipped = ingest_files(path, tmp_path / "s.zarr", IngestOptions(read=read, quality=False))
        ours, theirs = store.open(drafted.path), store.open(shipped.path)
        assert ours["station"].values.tolist() == theirs["station"].values.tolist()
        for name in ("u", "v", "p", "t", "rh", "lat", "alt"):
            assert np.array_equal(ours[name], theirs[name], equal_nan=True), name

    def test_inmet(self, tmp_path):
        folder = tmp_path / "raw"
        folder.mkdir()
        for path in sorted((SHARED / "inmet_raw_sample").iterdir())[:1]:
            (folder / path.name).symlink_to(path)
        self.same(tmp_path, folder, "inmet")

    def test_meteonet(self, tmp_path):
        self.same(
            tmp_path, SHARED / "meteonet_layout" / "NW2014_01_from_RADOME.csv", "meteonet", step=3600, tolerance=0
        )

    def test_the_lists_of_stations_are_lists(self):
        lists = sorted(SHARED.glob("*/stations.csv"))
        assert lists
        for path in lists:
            with pytest.raises(DataError, match="is a list of stations"):
                draft_map(path)

    def test_the_arrays_need_no_map(self):
        for path in (SHARED / "inmet_south/observations.npz", next((SHARED / "weather2k_layout").iterdir())):
            with pytest.raises(UsageError, match="needs no column map"):
                draft_map(path)
