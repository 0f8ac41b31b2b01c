"""Quotes in tables: cells of several lines are read, a quote that nobody closed does not swallow rows in silence."""

import io

import pytest

from fields.errors import DataError
from fields.readers.csv_text import TextLayout, blocks, stray_quote
from reader_files import Weather, open_source, read_all, write_rows

WEATHER = Weather(4, 48)


def noted(tmp_path, note):
    """Write a tidy table with a remark in each row."""
    rows = [{**row, "note": note(i)} for i, row in enumerate(WEATHER.rows())]
    return write_rows(tmp_path / "obs.csv", rows)


@pytest.mark.parametrize("later", ["ok", 'a "word" in it', '"open as well'])
def test_a_quote_that_is_not_closed_is_refused_with_its_line(tmp_path, later):
    path = noted(tmp_path, lambda i: '"open' if i == 28 else later if i == 60 else "ok")
    with pytest.raises(DataError, match="line 30: a quote is opened and not closed") as caught:
        read_all(open_source(path, tmp_path))
    assert caught.value.code == "SPDE-D123"


@pytest.mark.parametrize("note", ['"two\nlines, and ""more"""', '"two\r\nlines"', 'an inch: 1"', '"closed"'])
def test_cells_of_several_lines_and_single_quotes_in_cells_are_read(tmp_path, note):
    path = noted(tmp_path, lambda i: note if i % 9 == 2 else "ok")
    source = open_source(path, tmp_path)
    assert read_all(source)["t"].size == WEATHER.t.size and source.axis.count == 48


def test_no_block_ends_inside_a_cell_of_several_lines():
    text = b"a,b\n" + b'1,"x\ny"\n2,z\n' * 400
    layout = TextLayout("obs.csv", ",", ".", "utf-8", ("a", "b"), 4, ())
    stream = io.BytesIO(text)
    stream.seek(4)
    parts = [bytes(block.content) for block in blocks(stream, layout, 4, 97)]
    assert b"".join(parts) == text[4:] and len(parts) > 20
    assert all(stray_quote(part, ",") == -1 for part in parts)


@pytest.mark.parametrize(
    ("head", "what"), [("<html><body>404</body></html>\n", "XML or HTML"), ('{"a": 1, "b": 2}\n', "JSON")]
)
def test_what_is_no_table_is_called_what_it_is(tmp_path, head, what):
    (tmp_path / "obs.csv").write_text(head)
    with pytest.raises(DataError, match=f"not a table: it is {what}"):
        open_source(tmp_path / "obs.csv", tmp_path)


@pytest.mark.parametrize("cell", ['"1,013.2"', "12.3 °C", "1 013"])
def test_a_number_written_otherwise_is_not_advised_to_count_as_missing(tmp_path, cell):
    rows = WEATHER.rows()
    rows[5]["t"] = cell
    with pytest.raises(DataError, match="is not a number") as caught:
        read_all(open_source(write_rows(tmp_path / "obs.csv", rows), tmp_path))
    assert "missing" not in caught.value.do and "decimal point" in caught.value.do


def test_a_link_to_its_own_folder_beside_the_tables_harms_nothing(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_rows(folder / "obs.csv", WEATHER.rows())
    (folder / "loop").symlink_to(folder)
    assert read_all(open_source(folder, tmp_path))["t"].size == WEATHER.t.size
