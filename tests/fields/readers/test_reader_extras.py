"""Gust, rain, radiation and other scalars of the maps that ship, and names and WIGOS identifiers, reach the store."""

import numpy as np
import pytest

from fields import store
from fields.errors import DataError
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions, draft_map
from fields.readers.column_map import parse_map

STEPS = 30


def ingested(folder, table, column_map, stations=None):
    (folder / "obs.csv").write_text(table, encoding="utf-8")
    read = ReadOptions(column_map=column_map, stations=stations)
    return store.open(ingest_files(folder / "obs.csv", folder / "o.zarr", IngestOptions(read=read)).path)


def test_the_services_tables_give_gust_and_visibility_in_si(tmp_path):
    rows = ["station,valid,lon,lat,elevation,tmpf,dwpf,relh,drct,sknt,p01i,alti,mslp,gust,vsby"]
    rows += [
        f"DEN,2021-06-{1 + h // 24:02d} {h % 24:02d}:00,-104.7,39.8,1656,{60 + h % 7},50,{60 + h % 5},200,{8 + h % 4},"
        f"0.{10 * (h % 3)},30.0,{1010 + h % 5}.2,{20 + h % 3},{10 if h % 2 else 2}" for h in range(STEPS)
    ]  # fmt: skip
    ds = ingested(tmp_path, "\n".join(rows) + "\n", "asos")
    assert np.allclose(ds["gust"][:3, 0], np.array([20, 21, 22]) * 0.514444, atol=1e-3)
    assert np.allclose(ds["visibility"][:2, 0], [2 * 1609.344, 10 * 1609.344], rtol=1e-5)
    assert np.allclose(ds["precip"][:3, 0], [0.0, 2.54, 5.08], atol=1e-5)


def test_compound_cells_of_noaa_give_gust_and_visibility(tmp_path):
    rows = ["STATION,DATE,LATITUDE,LONGITUDE,ELEVATION,NAME,WND,TMP,DEW,SLP,VIS,OC1"]
    for h in range(STEPS):
        gust = '""' if h == 1 else f'"{95 + h:04d},1"'
        rows.append(
            f'72202012839,2021-06-{1 + h // 24:02d}T{h % 24:02d}:00:00,25.8,-80.3,8.8,"MIAMI, FL",'
            f'"{100 + h:03d},1,N,{50 + h:04d},1","+{250 + h:04d},1","+{200 + h:04d},1","{10130 + h},1",'
            f'"{16000 if h else 999999:06d},1,N,1",{gust}'
        )
    ds = ingested(tmp_path, "\n".join(rows) + "\n", "noaa_hourly")
    assert np.isnan(ds["gust"].values[1, 0]) and ds["gust"].values[2, 0] == pytest.approx(9.7)
    assert np.isnan(ds["visibility"].values[0, 0]) and ds["visibility"].values[1, 0] == 16000
    assert ds["name"].values.tolist() == ["MIAMI, FL"]


def test_the_german_service_counts_the_sky_in_eighths(tmp_path):
    rows = ["STATIONS_ID;MESS_DATUM;QN_8;R1;SD_SO;V_N;V_VV;TT_TU;eor"]
    rows += [f"44;202106{1 + h // 24:02d}{h % 24:02d};3;{0.5 * (h % 3)};{h % 60};{h % 9 if h else -1};{1000 + h};"
             f"{12 + h % 9}.5;eor" for h in range(STEPS)]  # fmt: skip
    (tmp_path / "list.csv").write_text(
        "Stations_id;Stationshoehe;geoBreite;geoLaenge;Stationsname;wigos\n44;44;52.9;8.2;Grossenkneten;0-276-0-44\n"
    )
    with pytest.raises(DataError, match="not in the list of stations"):
        ingested(tmp_path, "\n".join(rows).replace("44;2", "45;2") + "\n", "dwd_hourly", str(tmp_path / "list.csv"))
    ds = ingested(tmp_path, "\n".join(rows) + "\n", "dwd_hourly", str(tmp_path / "list.csv"))
    assert np.isnan(ds["cloud"].values[0, 0]) and ds["cloud"].values[8, 0] == pytest.approx(1.0)
    assert ds["sunshine"].values[5, 0] == 300 and ds["visibility"].values[1, 0] == 1001
    assert ds["name"].values.tolist() == ["Grossenkneten"]


def test_a_table_with_names_and_identifiers_is_drafted_and_kept(tmp_path):
    rows = ["station;station_name;wigos_id;time;lat;lon;alt;temp_c;gust_kmh;visibility_km;global_radiation (W/m²)"]
    rows += [f"{s};Höhe {s};0-20008-0-{s};2021-06-{1 + h // 24:02d}T{h % 24:02d}:00;4{s}.5;5.0;100;{12 + h % 5}.3;"
             f"{30 + h % 7}.5;{10 + h % 4};{40.5 * (h % 24)}" for h in range(STEPS) for s in range(3)]  # fmt: skip
    (tmp_path / "obs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    draft = draft_map(tmp_path / "obs.csv")
    drafted = parse_map(draft.text.encode(), "m")
    assert drafted.stations.id == ("station",) and drafted.stations.wigos == ("wigos_id",)
    assert {name: column.unit for name, column in drafted.variables.items()} == {
        "t": "degC", "gust": "km/h", "visibility": "km", "radiation": "W/m**2",
    }  # fmt: skip
    (tmp_path / "m.toml").write_text(draft.text, encoding="utf-8")
    ds = ingested(tmp_path, "\n".join(rows) + "\n", str(tmp_path / "m.toml"))
    assert ds["wigos"].values.tolist() == [f"0-20008-0-{s}" for s in range(3)]
    assert ds["name"].values.tolist() == [f"Höhe {s}" for s in range(3)]
    assert ds["gust"].values[0, 0] == pytest.approx(30.5 / 3.6)


def test_the_hourly_sum_of_radiation_becomes_a_mean_flux(tmp_path):
    place = "station,time,lat,lon,alt,t,radiation"
    rows = [f"A,2021-06-{1 + h // 24:02d}T{h % 24:02d}:00,45,5,100,{12 + h % 5}.3,{36.0 * (h % 24)}"
            for h in range(STEPS)]  # fmt: skip
    (tmp_path / "obs.csv").write_text("\n".join([place, *rows]) + "\n")
    read = ReadOptions(column_map="tidy", units={"radiation": "kJ/m**2/h"})
    ds = store.open(ingest_files(tmp_path / "obs.csv", tmp_path / "o.zarr", IngestOptions(read=read)).path)
    assert ds["radiation"].values[10, 0] == pytest.approx(100.0)


def test_a_unit_that_measures_something_else_is_refused(tmp_path):
    rows = [f"A,2021-06-01T{h:02d}:00,45,5,100,{12 + h % 5}.3,7.5" for h in range(24)]
    (tmp_path / "obs.csv").write_text("\n".join(["station,time,lat,lon,alt,t,gust", *rows]) + "\n")
    with pytest.raises(DataError, match="does not measure wind speed of gust") as caught:
        ingest_files(
            tmp_path / "obs.csv", tmp_path / "o.zarr",
            IngestOptions(read=ReadOptions(column_map="tidy", units={"gust": "hPa"})),
        )  # fmt: skip
    assert caught.value.code == "SPDE-D007"
