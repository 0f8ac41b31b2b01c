"""Tables of places that a spreadsheet wrote: encodings, separators, two altitudes."""

import pytest

from fields.errors import DataError
from fields.lift import read_points


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("name,lat,lon\nSão José,45,5\n".encode("latin-1"), "line 2 is not UTF-8 text"),
        ("name,lat,lon\nA,45,5\n".encode("utf-16"), "line 1 is not UTF-8 text"),
        (b"name,lat,lon\nA\0,45,5\n", "NUL"),
        (b"name;lat;lon\nA;45,5;5,5\n", "no commas between its columns"),
        (b"name,lat,lon,alt,alt_m\nA,45,5,150,200\n", "two columns of altitude, alt and alt_m"),
        (b"name,lat,lon,z\nA,45,5,150\n", "a column 'z' and none called alt"),
    ],
)
def test_what_would_be_read_otherwise_is_refused_in_words(tmp_path, raw, words):
    (tmp_path / "places.csv").write_bytes(raw)
    with pytest.raises(DataError, match=r"places\.csv") as refused:
        read_points(tmp_path / "places.csv")
    assert words in str(refused.value)
    assert refused.value.code == "SPDE-D090" and refused.value.do


def test_the_height_of_an_instrument_is_no_altitude(tmp_path):
    (tmp_path / "places.csv").write_text("name,lat,lon,alt,height\nA,45,5,150,2\n")
    assert read_points(tmp_path / "places.csv").alt.tolist() == [150.0]
