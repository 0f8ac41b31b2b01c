"""The settings of the proving ground: length, density, size, season, cadence, and what is missing.

Trials, which choices of the recipe may be made on, lie within the training periods of the other settings that share
stations with them; the test part of any other setting is read once, by the table.
"""

from __future__ import annotations

from benchmarks.networks import Network, every, nearest, whole
from benchmarks.section import ROOT
from stationpde.evaluation import CAP_SECONDS

__all__ = ["NETWORKS"]

# A record of three weeks has no whole window in a tenth of it.
_SHORT = ("data.split=[0.5, 0.2, 0.3]",)
_NO_PRESSURE = ("data.missing.p=standard-atmosphere", "data.scored=['u', 'v', 't', 'rh']")


def _trial(count: int, lat: float, lon: float, months: str, first: str, last: str) -> Network:
    title = f"{count} stations around {-lat:g}° S {-lon:g}° W, {months} 2023"
    return Network(title, nearest(count, lat, lon), f"2023-{first}", f"2023-{last}T23", is_trial=True, cap=CAP_SECONDS)


# Settings with the whole cap were computed before smaller ones had a smaller one; none of their models used it up.
NETWORKS: dict[str, Network] = {
    "home": Network(
        "inmet_south, 103 stations, two years: the recipe was made here", whole, "", "",
        cells=ROOT / "benchmarks" / "cells", cap=CAP_SECONDS,
    ),
    "south-2023": Network(
        "stations south of 28° S, 2023", lambda lat, lon: (lat < -28.0).nonzero()[0], "2023-01-01", "2023-12-31T23",
        cap=CAP_SECONDS,
    ),
    "third-2024": Network(
        "every third station, April to September 2024", every(3), "2024-04-01", "2024-09-30T23", cap=CAP_SECONDS
    ),
    "plateau-summer": Network(
        "12 stations around 22° S 49° W, November 2023 to February 2024", nearest(12, -22.0, -49.0), "2023-11-01",
        "2024-02-29T23", cap=CAP_SECONDS,
    ),
    "coast-winter": Network(
        "8 stations around 25° S 50° W, June to August 2024", nearest(8, -25.0, -50.0), "2024-06-01",
        "2024-08-31T23", cap=CAP_SECONDS,
    ),
    "eighth-two-years": Network(
        "every eighth station of inmet_south, two years", every(8, 1), "2023-01-01", "2024-12-31T23"
    ),
    "no-pressure": Network(
        "every second station of inmet_south, July to December 2024, without pressure", every(2), "2024-07-01",
        "2024-12-31T23", without=("p",), overrides=_NO_PRESSURE,
    ),
    "gaps-2024": Network(
        "every fourth station of inmet_south, 2024, a fifth of all values missing", every(4), "2024-01-01",
        "2024-12-31T23", missing=0.2,
    ),
    "fourth-hourly": Network(
        "every fourth station of inmet_south, May to October 2024, hourly", every(4, 2), "2024-05-01",
        "2024-10-31T23", protocol="meteonet-like",
    ),
    "us": Network(
        "us_isd, 60 stations over 4,500 km, 3.5 years", whole, "2017-01-01", "2020-06-20T23", record="us_isd"
    ),
    "us-second": Network(
        "every second station of us_isd, a year to June 2020", every(2), "2019-06-21", "2020-06-20T23", record="us_isd"
    ),
    "us-fourth": Network(
        "every fourth station of us_isd, two years to June 2020", every(4, 2), "2018-06-21", "2020-06-20T23",
        record="us_isd",
    ),
    "us-eighth": Network(
        "every eighth station of us_isd, three years to June 2020", every(8), "2017-06-21", "2020-06-20T23",
        record="us_isd",
    ),
    "us-winter": Network(
        "us_isd, August 2019 to January 2020", whole, "2019-08-01", "2020-01-31T23", record="us_isd"
    ),
    "us-three-weeks": Network(
        "us_isd, three weeks of October 2019", whole, "2019-10-07", "2019-10-27T23", record="us_isd",
        overrides=_SHORT,
    ),
    "us-hourly": Network(
        "every third station of us_isd, January to May 2020, hourly", every(3), "2020-01-01", "2020-05-31T23",
        record="us_isd", protocol="meteonet-like",
    ),
    "us-gaps": Network(
        "15 stations of us_isd around 40° N 82° W, July to December 2019, a fifth of all values missing",
        nearest(15, 40.0, -82.0), "2019-07-01", "2019-12-31T23", record="us_isd", missing=0.2,
    ),
    "metar": Network(
        "metar_conus, 2,214 stations, 39 days, hourly", whole, "2025-09-17T10", "2025-10-25T23", record="metar_conus",
        protocol="meteonet-like",
    ),
    "metar-eighth": Network(
        "every eighth station of metar_conus, 39 days", every(8), "2025-09-17T12", "2025-10-25T23",
        record="metar_conus", overrides=_SHORT,
    ),
    "metar-plains": Network(
        "40 stations of metar_conus around 41° N 97° W, 39 days, hourly", nearest(40, 41.0, -97.0), "2025-09-17T10",
        "2025-10-25T23", record="metar_conus", protocol="meteonet-like",
    ),
    "brittany": Network(
        "stations of meteonet_layout, January 2014, hourly, two thirds of the pressure missing", whole, "2014-01-01",
        "2014-01-31T23", record="meteonet_layout", protocol="meteonet-like", overrides=_SHORT,
    ),
    "trial-pampas": _trial(8, -30.0, -53.0, "March to May", "03-01", "05-31"),
    "trial-hills": _trial(10, -21.0, -44.0, "June to August", "06-01", "08-31"),
    "trial-inland": _trial(8, -23.0, -52.0, "September to November", "09-01", "11-30"),
    "trial-half-year": _trial(15, -27.0, -50.0, "January to June", "01-01", "06-30"),
    "trial-six": _trial(6, -20.0, -41.5, "May to July", "05-01", "07-31"),
    "trial-twenty": _trial(20, -22.0, -46.0, "July to October", "07-01", "10-31"),
    "trial-us": Network(
        "every second station of us_isd, February 2017 to December 2018", every(2, 1), "2017-02-01", "2018-12-31T23",
        record="us_isd", is_trial=True,
    ),
    "trial-us-fourth": Network(
        "every fourth station of us_isd, April 2017 to March 2018", every(4, 1), "2017-04-01", "2018-03-31T23",
        record="us_isd", is_trial=True,
    ),
    "trial-metar": Network(
        "every sixteenth station of metar_conus, 19 days", every(16, 3), "2025-09-17T12", "2025-10-06T11",
        record="metar_conus", is_trial=True, overrides=_SHORT,
    ),
    "trial-metar-hourly": Network(
        "40 stations of metar_conus around 34° N 84° W, 19 days, hourly", nearest(40, 34.0, -84.0), "2025-09-17T12",
        "2025-10-06T11", record="metar_conus", protocol="meteonet-like", is_trial=True, overrides=_SHORT,
    ),
}  # fmt: skip
