"""Folders of tables: what is called a table and is none is refused, what is left out is told, hidden files are none."""

import os

import numpy as np
import pytest

from fields.errors import DataError, UsageError
from reader_files import Weather, open_source, read_all, write_rows

WEATHER = Weather(3, 6)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "raw"
    path.mkdir()
    write_rows(path / "a.csv", WEATHER.rows())
    return path


def pipe(path):
    os.mkfifo(path)


def socket_of_zeros(path):
    path.symlink_to("/dev/zero")


def link_to_nothing(path):
    path.symlink_to(path.with_name("moved.csv"))


def link_to_itself(path):
    path.symlink_to(path.name)


def folder_of_parts(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (pipe, "no regular file"), (socket_of_zeros, "no regular file"), (link_to_nothing, "a link to nothing"),
        (link_to_itself, "a link to nothing"), (folder_of_parts, "a folder"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["b.csv", "b.parquet", "b.tar.gz"])
def test_an_entry_called_a_table_that_is_none_is_refused(folder, tmp_path, make, what, name):
    make(folder / name)
    with pytest.raises(UsageError, match=f"{name} is {what}, not a table") as caught:
        open_source(folder, tmp_path)
    assert "move that entry out of the folder" in caught.value.do


def test_hidden_files_are_no_tables(folder, tmp_path):
    (folder / "._a.csv").write_bytes(b"\0\5\x16\7Mac OS X")
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    source = open_source(folder, tmp_path)
    assert len(source.network) == 3
    assert not [problem for problem in source.report if problem.code == "SPDE-D107"]


def test_what_is_left_out_of_a_folder_is_told(folder, tmp_path):
    (folder / "b.csv.bz2").write_bytes(b"BZh9")
    (folder / "2020").mkdir()
    (folder / "map.toml").write_text("")
    told = [problem for problem in open_source(folder, tmp_path).report if problem.code == "SPDE-D107"]
    assert [problem.what for problem in told] == ["not read: 2020/, b.csv.bz2"]


def test_a_text_that_is_no_table_is_to_be_moved_out_of_the_folder(folder, tmp_path):
    (folder / "readme.txt").write_text("hello\nthis is no table\n")
    with pytest.raises(DataError, match=r"readme\.txt") as caught:
        open_source(folder, tmp_path)
    assert caught.value.do.startswith("move readme.txt out of the folder raw")


@pytest.mark.parametrize("blank", [",,,,,,,,,,,", '"",,, ,,'])
def test_rows_without_content_at_the_end_are_none(tmp_path, blank):
    path = write_rows(tmp_path / "obs.csv", WEATHER.rows())
    columns = path.read_text().split("\n")[0].count(",")
    blank = blank.ljust(200, ",")
    while blank.count(",") > columns:
        blank = blank[:-1]
    whole = read_all(open_source(path, tmp_path / "one"))
    with path.open("a") as file:
        file.write(f"{blank}\n" * 3)
    again = read_all(open_source(path, tmp_path / "two"))
    assert all(np.array_equal(whole[name], again[name], equal_nan=True) for name in whole)


def test_a_row_without_a_time_in_mid_table_is_named_with_its_line(tmp_path):
    rows = WEATHER.rows()
    rows[4]["time"] = ""
    with pytest.raises(DataError, match="line 6") as caught:
        open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path)
    assert caught.value.do == "fill in the time in line 6 of the file, or remove that row"
