"""METAR and SPECI as text: values by hand, times from a date or --start, faults by line and field."""

import numpy as np
import pytest

from fields.errors import DataError, UsageError
from fields.ingest import IngestOptions, ingest
from fields.readers import ReadOptions
from fields.store import open_store
from reader_files import open_source, read_all, write_rows

REPORTS = """\
SAUS70 KWBC 311200
202301312353 METAR KDEN 312353Z 35008KT 10SM FEW080 M02/M08 A3012 RMK AO2 SLP223 T10221083=
202301312353 METAR KXYZ 312353Z 00000KT CAVOK 10/05 Q1015=
202302010053 METAR KDEN 010053Z VRB03KT 9SM
     OVC012 M03/M08 A3013 RMK AO2 SLP231 T10281083=
202302010120 SPECI KDEN 010120Z 36010G20KT 1/2SM SN M04/M06 A3014=
202302010153 METAR KDEN 010153Z 36010MPS 9999 M03/M08 Q1016=
202302010053 METAR KXYZ 010053Z NIL=
202302010153 METAR KXYZ 010153Z 09005KT CAVOK 11/05 Q1014=
"""


def written(tmp_path, text=REPORTS, **changes):
    rows = [{"id": "KDEN", "name": "Denver", "lat": 39.85, "lon": -104.66, "alt": 1650.0},
            {"id": "KXYZ", "name": "Nowhere", "lat": 40.5, "lon": -104.0, "alt": 0.0}]  # fmt: skip
    (tmp_path / "reports.txt").write_text(text)
    return open_source(
        tmp_path / "reports.txt", tmp_path, stations=str(write_rows(tmp_path / "list.csv", rows)), **changes
    )


def test_reports_become_hourly_values(tmp_path):
    source = written(tmp_path)
    assert source.reader == "metar"
    assert source.network.ids.tolist() == ["KDEN", "KXYZ"]
    assert source.network.names.tolist() == ["Denver", "Nowhere"]
    assert source.axis.count == 3 and source.axis.start == np.datetime64("2023-02-01T00:00", "s").astype(int)
    values = read_all(source)
    assert np.allclose(values["t"], [[-2.2, 10], [-2.8, np.nan], [-3, 11]], equal_nan=True)
    assert np.allclose(values["td"][:, 0], [-8.3, -8.3, -8])
    assert np.allclose(values["ff"], [[8, 0], [3, np.nan], [19.438, 5]], atol=0.01, equal_nan=True)
    assert np.allclose(values["dd"], [[350, 0], [np.nan, np.nan], [360, 90]], equal_nan=True)
    assert np.allclose(values["psl"][:, 0], [1022.3, 1023.1, np.nan], equal_nan=True)
    # The setting is reduced by the standard atmosphere: 1,020 hPa at 1,650 m is 836 hPa, at the sea itself.
    assert values["p"][0, 0] == pytest.approx(836.0, abs=1.0)
    assert values["p"][0, 1] == pytest.approx(1015.0, abs=0.5)


def test_what_follows_a_group_that_is_not_known_is_read(tmp_path):
    text = (
        "202301312353 METAR KDEN 312353Z VRB03KT P6SM CLR M02/M08 A3012 RMK AO2 10/10 A2900\n"
        "202301312353 METAR KXYZ 312353Z 27018KMH 9999 10/ Q1015=\n"
    )
    values = read_all(written(tmp_path, text))
    assert np.allclose(values["t"], [[-2, 10]]) and np.allclose(values["td"], [[-8, np.nan]], equal_nan=True)
    assert values["p"][0, 0] == pytest.approx(836.0, abs=1.0) and values["p"][0, 1] == pytest.approx(1015.0, abs=0.5)


def test_reports_without_pressure_at_the_sea_keep_that_of_the_altimeter(tmp_path):
    text = "".join(
        f"202301{d}{h:02d}53 METAR KXYZ {d}{h:02d}53Z {190 + h}05KT 9999 {10 + h % 5}/0{h % 7} Q{1010 + h}\n"
        for d in (30, 31) for h in range(24)
    )  # fmt: skip
    written(tmp_path, text)
    options = IngestOptions(read=ReadOptions(stations=str(tmp_path / "list.csv")), reader="metar")
    result = ingest(tmp_path / "reports.txt", tmp_path / "out.zarr", options)
    assert "p" in result.variables
    pressure = open_store(tmp_path / "out.zarr")["p"]
    assert np.isfinite(pressure).all() and float(pressure[0, 0]) == pytest.approx(101000, abs=100)


def test_without_a_date_the_first_day_is_asked_for_and_taken(tmp_path):
    text = "".join(
        f"METAR KDEN {d:02d}{h:02d}53Z 35008KT 10SM M02/M08 A3012=\n" for d in (30, 31, 1) for h in range(24)
    )
    with pytest.raises(DataError, match="line 1: the report names the day of its month alone") as caught:
        written(tmp_path, text)
    assert "--start 2023-07-01" in caught.value.do
    source = written(tmp_path, text, start=int(np.datetime64("2023-01-30", "s").astype(int)))
    assert source.axis.count == 72


def test_reports_need_a_list_of_stations(tmp_path):
    (tmp_path / "reports.txt").write_text(REPORTS)
    with pytest.raises(UsageError, match="no list of stations") as caught:
        open_source(tmp_path / "reports.txt", tmp_path)
    assert "--station-list" in caught.value.do


@pytest.mark.parametrize(
    ("line", "message"),
    [("TAF KDEN 311130Z 3112/0118 35008KT", "line 2: .* is no METAR"), ("\x1b[31m", "line 2"),
     ("202301312353 METAR KDEN 322353Z 35008KT 10SM M02/M08 A3012", "line 2: '322353Z' is no time"),
     ("202301312353 METAR KDEN 312553Z 35008KT 10SM M02/M08 A3012", "line 2: '312553Z' is no time"),
     ("202301312353 METAR KDEN 312353Z " + "A" * 5000, "line 2")],
)  # fmt: skip
def test_a_fault_is_named_by_line(tmp_path, line, message):
    lines = REPORTS.splitlines()
    lines[1] = line
    with pytest.raises(DataError, match=message):
        written(tmp_path, "\n".join(lines))


def test_a_station_that_is_not_in_the_list_is_named(tmp_path):
    with pytest.raises(DataError, match="not in the list"):
        written(tmp_path, REPORTS.replace("KXYZ", "KABC"))
