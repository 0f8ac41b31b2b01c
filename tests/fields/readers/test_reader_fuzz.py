"""Whatever bytes a file holds, the readers answer with a source or with a typed error, never with anything else."""

import io
import tempfile
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile_corpus as corpus
from fields.errors import FieldsError
from fields.readers import ReadOptions, Workspace, detect, reader, registry

# Cells, line ends and quotes that tables are made of, in any order.
PIECES = st.sampled_from(
    ["1.5", "-9999", "M", "", "nan", "inf", "1e400", "1_0", '"', "\n", "\r\n", "\r", ",", ";", "\t", "2021-01-01T00:00",
     "2021-01-01T01:00Z", "99999-01-01", "A", "\x00", "é", "\u2028", "=1+1", "station,time,lat,lon,alt,t\n", "45",
     "0x1F", "1,5", "true", "-", "A,2021-01-01T00:00,45,5,100,1.5\n", "A,2021-01-01T01:00,45,5,100,2.5\n"]
)  # fmt: skip


@pytest.fixture(autouse=True)
def _published_readers_are_looked_up_once(monkeypatch):
    """Look up the installed readers once: doing it for every file takes two thirds of the time."""
    published = entry_points(group=registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: published)


def attempt(content: bytes, name: str, reader_name: str | None = None) -> None:
    """Open and read all; only typed errors may come out."""
    refused = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            chosen = reader(reader_name) if reader_name else detect(path)
            source = chosen.open(path, ReadOptions(max_bytes=1 << 24), Workspace(Path(folder, "work")))
            if source.axis.count < 10_000 and len(source.network) < 1000:
                source.read(0, source.axis.count)
                source.findings()
        except FieldsError as problem:
            refused = problem
    assert refused is None or refused.problems or str(refused).isprintable()


@st.composite
def mangled(draw, original: bytes) -> bytes:
    """Draw a sound file with some bytes changed, cut out or put in."""
    content = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        change = draw(st.sampled_from(["flip", "cut", "insert", "truncate"]))
        if change == "flip" and content:
            content[at] ^= draw(st.integers(1, 255))
        elif change == "cut":
            del content[at : at + draw(st.integers(1, 40))]
        elif change == "insert":
            content[at:at] = draw(st.binary(max_size=20))
        else:
            del content[at:]
    return bytes(content)


def sound_npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.ones((3, 13, 6), np.float32))
    return out.getvalue()


def sound_parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [line.split(",") for line in corpus.TABLE.decode().splitlines()]
    columns = {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}
    for name in ("lat", "lon", "alt", "t"):
        columns[name] = [float(x) for x in columns[name]]
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def sound_tar() -> bytes:
    return corpus.tar_of((corpus.member("obs.csv"), corpus.TABLE))


SOUND = {
    "obs.csv": corpus.TABLE, "obs.npy": sound_npy(), "obs.npz": corpus.zip_of(corpus.good_parts(), zipfile.ZIP_STORED),
    "obs.parquet": sound_parquet(), "obs.tar": sound_tar(), "obs.zip": corpus.zip_of({"obs.csv": corpus.TABLE}),
}  # fmt: skip


def trials(normal: int):
    """Parametrize a number of examples, and two hundred times as many in the slow run: some 100,000 in this file."""
    return [pytest.param(normal), pytest.param(normal * 200, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]


@pytest.mark.parametrize("name", SOUND)
def test_the_sound_files_are_sound(name):
    if name != "obs.npy":  # an array of ones lacks its times
        attempt(SOUND[name], name)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, name).write_bytes(SOUND[name])
            source = detect(Path(folder, name)).open(Path(folder, name), ReadOptions(), Workspace(Path(folder, "w")))
            assert source.axis.count == 24


@pytest.mark.parametrize("count", trials(34))
@pytest.mark.parametrize("name", SOUND)
def test_a_mangled_file_is_read_or_refused(name, count):
    @settings(max_examples=count, database=None)
    @given(mangled(SOUND[name]))
    def run(content):
        attempt(content, name)

    run()


def test_a_column_name_that_is_no_text_is_refused():
    content = SOUND["obs.parquet"]
    broken = content.replace(b"\x18\x07station%", b"\x18\x07\xf3tation%")  # in the schema alone
    assert broken != content
    attempt(broken, "obs.parquet")


@pytest.mark.parametrize("count", trials(100))
def test_any_table_of_odd_cells_is_read_or_refused(count):
    @settings(max_examples=count, database=None)
    @given(st.lists(PIECES, max_size=40), st.booleans())
    def run(pieces, with_header):
        text = ("station,time,lat,lon,alt,t\n" if with_header else "") + "".join(pieces)
        attempt(text.encode("utf-8"), "obs.csv", "table")

    run()


@pytest.mark.parametrize("count", trials(60))
@pytest.mark.parametrize("name", ["weather2k", "arrays", "table", "meteonet"])
def test_any_bytes_are_read_or_refused(name, count):
    @settings(max_examples=count, database=None)
    @given(st.binary(max_size=600))
    def run(content):
        attempt(content, "obs.dat", name)

    run()
