"""The compiled reader of plain tables: the same numbers as pyarrow's, and hands off what is not plain."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from fields.errors import DataError
from fields.readers import decode
from fields.readers.csv_kernel import read_plain
from reader_files import Weather, open_source, read_all, write_rows

TYPES = {0: pa.string(), 2: pa.float32(), 3: pa.float64()}


def general(content: bytes, separator: str = ",", decimal: str = ".") -> pa.Table:
    names = [f"c{i}" for i in range(4)]
    column_types = {f"c{i}": kind for i, kind in TYPES.items()}
    return csv.read_csv(
        pa.BufferReader(content),
        read_options=csv.ReadOptions(column_names=names),
        parse_options=csv.ParseOptions(delimiter=separator),
        convert_options=csv.ConvertOptions(
            column_types=column_types, include_columns=list(column_types), null_values=[""], strings_can_be_null=False,
            decimal_point=decimal,
        ),
    )  # fmt: skip


def same(left: pa.Table, right: pa.Table) -> bool:
    def column(table, name):
        return table[name].to_pylist() if name == "c0" else table[name].to_numpy()

    def equal(a, b):
        return a == b if isinstance(a, list) else np.array_equal(a, b, equal_nan=True)

    return all(equal(column(left, name), column(right, name)) for name in right.column_names)


NUMBERS = st.one_of(
    st.just(""),
    st.decimals(-99999, 99999, places=3).map(str),
    st.decimals(-99, 99, places=8).map(lambda d: f"{d:f}"),
    st.integers(-(10**9), 10**9).map(str),
)
WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='",;'), max_size=12)


@given(st.lists(st.tuples(WORDS, WORDS, NUMBERS, NUMBERS), min_size=1, max_size=20), st.sampled_from(["\n", "\r\n"]))
def test_plain_tables_read_as_the_general_parser_reads_them(rows, end):
    content = "".join(",".join(row) + end for row in rows).encode()
    assert same(read_plain(content, ",", ".", TYPES, 4), general(content))


def test_a_decimal_comma_and_blanks_in_words_are_plain():
    content = b"Porto Alegre!;x;1,5;-0,25\nRio;;;,5\n"
    assert same(read_plain(content, ";", ",", TYPES, 4), general(content, ";", ","))


@pytest.mark.parametrize(
    "line",
    [b'"a",b,1,2\n', b"a,b,1e5,2\n", b"a,b,M,2\n", b"a,b,1\n", b"a,b,1,2,3\n", b"\n", b"a,b,nan,2\n", b"a,b,-,2\n",
     b"a,b,.,2\n", b"a,b,-.,2\n", b"a,b,+1,2\n", b"a,b,1_0,2\n", b"a,b, 1,2\n", b"a,b,1.2.3,2\n",
     b"a,b,12345678901234567,2\n", b"\xe9,b,1,2\n", b"a,b,1,2\r", b"a,b,1,2", b"a\rb,b,1,2\n"],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_the_general_parser(line):
    assert read_plain(b"a,b,1.5,2\n" + line, ",", ".", TYPES, 4) is None


def test_a_long_table_takes_the_compiled_reader_and_reads_the_same(tmp_path, monkeypatch):
    weather = Weather(6, 60)
    path = write_rows(tmp_path / "obs.csv", weather.rows())
    slow = read_all(open_source(path, tmp_path / "a"))
    monkeypatch.setattr(decode, "LONG", 0)
    called = []
    monkeypatch.setattr("fields.readers.csv_kernel.read_plain", lambda *a: called.append(1) or read_plain(*a))
    fast = read_all(open_source(path, tmp_path / "b"))
    assert called
    assert all(np.array_equal(slow[name], fast[name], equal_nan=True) for name in slow)


def test_faults_in_a_long_table_are_still_named_by_line(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "LONG", 0)
    rows = Weather(6, 60).rows()
    rows[100]["rh"] = "humid"
    with pytest.raises(DataError, match="line 102: 'humid' is not a number"):
        open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
