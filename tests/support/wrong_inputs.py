"""Files with one thing wrong each, as users have them: written into a folder, to be given to commands."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fields import store
from reader_files import Weather, write_npz, write_rows
from station_records import make_stations

Row = dict[str, Any]
NAN = float("nan")
_STATE = ("u", "v", "p", "t", "rh")


def _each(**changes: Callable[[Row], Any]) -> Callable[[list[Row]], list[Row]]:
    """Return a function that changes columns of all rows."""
    return lambda rows: [{**row, **{name: change(row) for name, change in changes.items()}} for row in rows]


def _at(station: str, **values: Any) -> Callable[[list[Row]], list[Row]]:
    """Return a function that sets columns of one station."""
    return lambda rows: [{**row, **values} if row["station"] == station else row for row in rows]


def _row(number: int, **values: Any) -> Callable[[list[Row]], list[Row]]:
    """Return a function that sets columns of one row."""
    return lambda rows: [{**row, **values} if n == number else row for n, row in enumerate(rows)]


def _winds(points: list[str]) -> Callable[[list[Row]], list[Row]]:
    """Return a function that replaces u and v by a speed and a direction out of a list of words."""

    def change(rows: list[Row]) -> list[Row]:
        kept = [{name: value for name, value in row.items() if name not in ("u", "v")} for row in rows]
        return [{**row, "ff": 3.5, "dd": points[n % len(points)]} for n, row in enumerate(kept)]

    return change


# Name of a table, and what was done to the rows of a plausible one.
TABLES: dict[str, Callable[[list[Row]], list[Row]]] = {
    "good": list,
    "pascal": _each(p=lambda row: row["p"] * 100),
    "kelvin": _each(t=lambda row: row["t"] + 273.15),
    "fraction": _each(rh=lambda row: row["rh"] / 100),
    "mercury": _each(p=lambda row: row["p"] * 0.750062),
    "feet": _each(alt=lambda row: row["alt"] / 0.3048),
    "hot": _each(t=lambda row: row["t"] * 8 + 200),
    "storm_knots": _each(u=lambda row: row["u"] + 18, v=lambda row: row["v"] + 14),
    "low_pressure": _each(alt=lambda row: 10.0, p=lambda row: 900 + row["p"] / 1000),
    "sea_level": _each(p=lambda row: row["p"] * (1 - 2.25577e-5 * row["alt"]) ** -5.2559),
    "two_slips": _each(p=lambda row: row["p"] * 100, t=lambda row: row["t"] + 273.15),
    "east_360": _each(lon=lambda row: row["lon"] % 360),
    "exchanged": _each(lat=lambda row: row["lon"] + 110, lon=lambda row: row["lat"]),
    "polar": _at("S003", lat=86.0),
    "lon_999": _at("S003", lon=999.0),
    "lat_95": _at("S003", lat=95.0, lon=120.0),
    "high_9999": _at("S003", alt=9999.0),
    "high_9500": _at("S003", alt=9500.0),
    "high_million": _at("S003", alt=1e6),
    "one_exchanged": lambda rows: [{**row, "lat": row["lon"], "lon": row["lat"]} if row["station"] == "S003" else row
                                   for row in rows],
    "american_dates": _each(time=lambda row: "{1}/{2}/{0} ".format(*row["time"][:10].split("-")) + row["time"][11:16]),
    "two_temperatures": _each(temperature=lambda row: row["t"] + 1),
    "elsewhere": _each(lat=lambda row: row["lat"] - 70),
    "year_2091": _each(time=lambda row: row["time"].replace("2021", "2091")),
    "unplaced": _at("S003", lat=NAN),
    "moved": lambda rows: [{**row, "lat": row["lat"] + (n > 600 and row["station"] == "S003")}
                           for n, row in enumerate(rows)],
    "contradiction": lambda rows: [*rows, {**rows[0], "t": 30.0}],
    "irregular": lambda rows: [{**row, "time": row["time"][:-2] + "07"} if n % 3 == 0 else row
                               for n, row in enumerate(rows)],
    "stray": lambda rows: [*rows, {**rows[0], "time": "1900-01-01T00:00:00"},
                           {**rows[0], "time": "2090-01-01T00:00:00"}],
    "no_pressure": lambda rows: [{name: value for name, value in row.items() if name != "p"} for row in rows],
    "empty_pressure": _each(p=lambda row: NAN),
    "empty_temperature": _each(t=lambda row: NAN),
    "silent": _each(**dict.fromkeys(_STATE, lambda row: NAN)),
    "bad_time": _row(5, time="yesterday"),
    "word": _row(5, t="warm"),
    "no_id": _row(5, station=""),
    "other_columns": lambda rows: [{{"station": "site", "time": "when"}.get(name, name): value
                                    for name, value in row.items()} for row in rows],
    "compass": _winds(["N", "NNW", "VRB", "ESE", "calm"]),
    "compass_and_degrees": _winds(["NNW", "340"]),
    "dutch": _winds(["ZZW", "NO"]),
    "degrees": _winds(["10", "350"]),
}  # fmt: skip
TEXTS = {
    "bare_cr.csv": b"station,time,lat\rS1,2020,1\r",
    "nul.csv": b"station,time,lat,lon,alt,t\nS1,2020-01-01T00:00,1,1,1,\x00\n",
    "one_column.csv": b"hello\nworld\n",
    "empty.csv": b"",
    "header.csv": b"station,time,lat,lon,alt,t\n",
    "short_line.csv": b"station,time,lat,lon,alt,t\nS1,2020-01-01T00:00,45,5,100,11\nS1,2020-01-01T01:00,45,5\n",
    "pickled.bin": b"\x80\x04\x95abc",
    "text.npy": b"station,time\n",
    "broken.toml": b"[file\n",
    "unknown_key.toml": b"[fil]\nx = 1\n",
    "wrong_unit.toml": b'[variables]\nt = { column = "t", unit = "hPa" }\n',
    "no_such_column.toml": b'[time]\ncolumns = ["when"]\n[variables]\nt = { column = "t", unit = "degC" }\n',
    "no_such_format.toml": b'[time]\nformat = "%d/%m/%Y"\n[variables]\nt = { column = "t", unit = "degC" }\n',
    "whitespace.toml": b'[file]\nseparator = "whitespace"\n[variables]\nt = { column = "t", unit = "degC" }\n',
    "text_column.toml": b'[variables]\nt = { column = "station", unit = "degC" }\n',
    "from_list.toml": b'[station]\nfrom = "file"\nkey = "station"\n[variables]\nt = { column = "t", unit = "degC" }\n',
    "one_of_them.csv": b"station,lat,lon,alt\nS000,45,5,100\n",
    "far_place.csv": b"name,lat,lon,alt\nhill,45.5,6,1000000\n",
    "no_places.csv": b"name,alt\nhill,100\n",
}


def write_wrong_inputs(folder: Path) -> Path:
    """Write all files, a store of stations, one of a single station and one of lifted fields."""
    weather = Weather(8, 130)
    for name, change in TABLES.items():
        write_rows(folder / f"{name}.csv", change(weather.rows()))
    for name, content in TEXTS.items():
        (folder / name).write_bytes(content)
    packed = gzip.compress((folder / "good.csv").read_bytes())
    (folder / "cut.csv.gz").write_bytes(packed[:2000])
    write_npz(folder / "good.npz", weather)
    parts = dict(np.load(folder / "good.npz"))
    ids = parts["station_id"].copy()
    ids[1] = ids[0]
    np.savez(folder / "twice.npz", **{**parts, "station_id": ids})
    np.savez(folder / "no_lat.npz", **{name: part for name, part in parts.items() if name != "lat"})
    np.savez(folder / "time_float.npz", **{**parts, "time": parts["time"].astype(np.int64).astype(np.float32)})
    np.save(folder / "no_times.npy", np.zeros((3, 13, 24), np.float32))
    np.save(folder / "seven_channels.npy", np.zeros((3, 7, 24), np.float32))
    np.save(folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    ds = make_stations(60)
    ds.drop_vars("alt").to_netcdf(folder / "no_alt.nc")
    ds["p"].attrs.pop("units")
    ds.to_netcdf(folder / "no_unit.nc")
    store.write_store(make_stations(200), folder / "stations.zarr")
    store.write_store(make_stations(200, stations=1), folder / "single.zarr")
    (folder / "nothing").mkdir()
    (folder / "folder.html").mkdir()
    (folder / "mine.txt").write_text("not to be replaced")
    return folder
