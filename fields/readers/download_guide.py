"""Explain where to obtain data that may not be passed on, and what to type once they are there."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from fields.errors import UsageError

__all__ = ["TEXTS", "download_guide"]

_WEATHER2K = """\
Weather2K: 1,866 ground stations in China, 2017-01-01 to 2021-08-31.
Zhu, Xiong, Wu, Nie, Zhang and Yang (2023), AISTATS 206: "Weather2K: A multivariate spatio-temporal benchmark dataset
for meteorological forecasting based on real-time observation data from ground weather stations".

name     the authors' repository on GitHub is bycnfz/weather2k; their README leads to the files
licence  non-commercial research; the hourly release is sent after an agreement form is signed. The data may not be
         passed on, so nothing of them ships here and nothing is downloaded
files    weather2k.npy          (1866, 13, 13632)  3-hourly   about 1.3 GB as float32   the public release
         Weather2K-R/data.npy   (1866, 23, 40896)  hourly     about 7 GB as float32     version 1.0
         idx2stat.txt           station numbers; used when it lies beside the array

Once the file is there:
  stationpde data ingest weather2k.npy -o weather2k.zarr
  stationpde data ingest Weather2K-R/data.npy --every 3 -o weather2k.zarr

Times are not in the files. They are taken as UTC+8; if yours are UTC, add --time-zone UTC. The size is checked against
the header, the array is mapped and streamed, and less than 1 GB of memory is used."""

_METEONET = """\
MeteoNet ground stations: about 500 stations in north-western (NW) and south-eastern (SE) France, 2016 to 2018, every
6 minutes. Larvor, Berthomier, Chabot, Le Pape, Pradel and Perez (2020), Météo-France.

name     MeteoNet, "ground observations"; the project's site is meteofrance.github.io/meteonet
licence  Etalab Open Licence 2.0: free use with the source named
files    NW_ground_stations_2016.tar.gz, …_2017.tar.gz, …_2018.tar.gz (or the NW2016.csv inside), 2 to 3 GB a year as
         text; put the years of one region into a folder of their own

Once the files are there:
  stationpde data ingest NW/ -o meteonet.zarr --missing p=standard-atmosphere --max-missing 0.1

The archives are read as they are, in one stream. Values on the hour are taken (--tolerance 6min takes the nearest).
Pressure is reduced to the sea and missing at about two stations of three: with --missing it is replaced by a reference
that is never scored, as in the paper; without, station pressure is derived where there is a value."""

_TABLE = """\
Your own stations: one CSV or parquet file for each station, or long tables, in a folder or an archive.

A table with the columns station, time, lat, lon, alt and any of u, v, p, t, rh (or ff, dd, psl, td) is read as it is:
  stationpde data ingest stations.csv -o mine.zarr
Units are m/s, hPa, degC and % unless you say otherwise: --unit p=Pa --unit t=K.

Other tables are described by a column map. This drafts one, with its guesses marked:
  stationpde data map stations.csv -o mine.toml
It is then given to the ingest:
  stationpde data ingest folder/ --map mine.toml -o mine.zarr

  [file]
  separator = ";"            # or "auto", "tab", "whitespace"
  decimal = ","
  encoding = "latin-1"
  header_lines = 0           # lines above the column names
  missing = ["-9999"]

  [time]
  columns = ["date", "hour"] # joined by a blank
  format = "%Y-%m-%d %H:%M"  # or "iso", "unix"; a list tries one after another
  zone = "UTC"               # or "UTC+8", "America/Sao_Paulo"

  [station]
  from = "columns"           # or "header" (lines above), "file" (a list of stations), "name" (of the file)
  id = "code"
  lat = "latitude"
  lon = "longitude"
  alt = "elevation"
  units = { alt = "ft" }

  [variables]
  t = { column = "temp", unit = "degF" }
  ff = { column = "wind_kt", unit = "kt" }
  dd = { column = "wind_dir", unit = "degrees", missing = ["VRB"] }
  p = { column = "press", unit = "hPa", scale = 0.1 }  # tenths

Maps that ship, by name: --map inmet, --map tidy, --map asos, --map noaa_hourly, --map dwd_hourly."""

_INMET = """\
INMET (Brazil), automatic stations: hourly, one CSV file for each station and year.

name     "dados históricos" of INMET's portal (portal.inmet.gov.br); one zip archive a year
licence  Brazilian government open data: name INMET as the source
files    2023.zip, or INMET_S_RS_A801_…_01-01-2023_A_31-12-2023.CSV

Once a year's archive is there:
  stationpde data ingest 2023.zip -o inmet.zarr"""

TEXTS: Mapping[str, str] = MappingProxyType(
    {"weather2k": _WEATHER2K, "meteonet": _METEONET, "inmet": _INMET, "table": _TABLE}
)


def download_guide(name: str) -> str:
    """Return the text about a dataset that is not on this machine: origin, licence, files and commands.

    Raises
    ------
    UsageError
        If there is no guide of this name; the nearest one is suggested.
    """
    if name not in TEXTS:
        near = difflib.get_close_matches(name.lower(), TEXTS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(TEXTS)}"
        raise UsageError(f"nothing is known about '{name[:60]}'", code="SPDE-D108", do=hint)
    return TEXTS[name]
