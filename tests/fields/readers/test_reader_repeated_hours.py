"""Hours that a clock shows twice, in files that run forwards, backwards or lack one of the two."""

from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fields import store
from fields.ingest import IngestOptions, ingest
from fields.readers import ReadOptions

UTC = [np.datetime64("2021-10-30T06") + np.timedelta64(hour, "h") for hour in range(36)]
PLACES = (("A", 45.0, 5.0, 200), ("B", 45.3, 5.4, 300), ("C", 45.1, 5.9, 250))


def rows():
    """Rows of three stations in local time, whose temperature counts the hours of UTC."""
    for hour, moment in enumerate(UTC):
        zoned = moment.astype("datetime64[s]").item().replace(tzinfo=ZoneInfo("UTC"))
        local = zoned.astimezone(ZoneInfo("Europe/Paris"))
        for name, lat, lon, alt in PLACES:
            yield moment, f"{name},{local:%Y-%m-%dT%H:%M},{lat},{lon},{alt},{hour / 4:.2f}"


def read(tmp_path, lines):
    table = tmp_path / "local.csv"
    table.write_text("\n".join(["station,time,lat,lon,alt,t", *lines]) + "\n")
    result = ingest(table, tmp_path / "out.zarr", IngestOptions(read=ReadOptions(zone="Europe/Paris")))
    return result, store.open(tmp_path / "out.zarr")["t"].load()


@pytest.mark.parametrize("order", [1, -1])
def test_both_hours_are_told_apart_in_either_order_of_rows(tmp_path, order):
    _, t = read(tmp_path, [line for _, line in rows()][::order])
    for name in "ABC":
        np.testing.assert_allclose(t.sel(station=name) - 273.15, np.arange(36) / 4, atol=1e-3)


def test_an_hour_without_the_other_one_is_told(tmp_path):
    lines = [line for moment, line in rows() if not (moment == np.datetime64("2021-10-31T00") and line[0] == "B")]
    result, _ = read(tmp_path, lines)
    assert any("1 report of an hour that the clock showed twice, without the other" in str(p) for p in result.report)
