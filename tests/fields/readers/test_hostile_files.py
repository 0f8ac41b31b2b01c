"""Hostile and broken files: a typed error each, no code run, nothing written elsewhere, little memory."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hostile_corpus
from fields.errors import DataError, FieldsError
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions
from reader_files import Weather, write_rows

# Run in a process of its own: each file's growth of the peak is what that file cost beyond the imported process.
SCRIPT = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import hostile_corpus
from fields.errors import FieldsError
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import ReadOptions, reader, names

def memory(line):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(text.split()[1]) for text in lines if text.startswith(line))

for name in names():
    reader(name)
good, output = Path(sys.argv[3]) / "good.csv", Path(sys.argv[3]) / "out.zarr"
ingest_files(good, output, IngestOptions(force=True))
for line in sys.stdin:
    path = Path(line.rstrip("\\n"))
    is_map = path.suffix == ".toml"
    options = IngestOptions(read=ReadOptions(column_map=str(path) if is_map else None), force=True)
    start = time.perf_counter()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    before = memory("VmRSS")
    try:
        ingest_files(good if is_map else path, output, options)
        found = {"error": None}
    except FieldsError as problem:
        found = {"error": type(problem).__name__, "code": problem.code, "exit_code": problem.exit_code}
        found["text"] = str(problem)
    except BaseException as problem:
        found = {"error": "untyped " + repr(problem)[:300]}
    found["grew_mb"] = (memory("VmHWM") - before) / 1024
    found["seconds"] = time.perf_counter() - start
    print(json.dumps({"path": str(path), **found}), flush=True)
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Ingest every file of the corpus in one process and return the outcomes."""
    folder = tmp_path_factory.mktemp("hostile")
    canary, desk = folder / "canary", folder / "desk"
    desk.mkdir()
    (desk / "good.csv").write_bytes(hostile_corpus.TABLE)
    paths = hostile_corpus.build(folder / "corpus", canary)
    before = sorted(str(p) for p in folder.rglob("*") if desk not in p.parents)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[2] / "support"), "", str(desk)],
        input="\n".join(map(str, paths)) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        # Not even where the library would unpickle.
        env={**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"},
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    after = sorted(str(p) for p in folder.rglob("*") if desk not in p.parents)
    left = sorted(p.name for p in desk.iterdir())
    return {"outcomes": outcomes, "before": before, "after": after, "canary": canary, "paths": paths, "left": left}


def test_the_corpus_is_large_and_every_file_of_it_was_tried(corpus):
    assert len(corpus["paths"]) >= 60
    assert [o["path"] for o in corpus["outcomes"]] == [str(p) for p in corpus["paths"]]


def test_every_file_is_answered_with_a_typed_error(corpus):
    wrong = {Path(o["path"]).name: o["error"] for o in corpus["outcomes"] if "code" not in o}
    assert wrong == {}


def test_the_exit_codes_are_those_of_usage_data_and_configuration(corpus):
    for outcome in corpus["outcomes"]:
        expected = {4} if outcome["path"].endswith(".toml") else {2, 3}
        if Path(outcome["path"]).name == "expansion.toml":
            expected = {2}  # the map is sound; the path it names is taken as it stands, and is not there
        assert outcome["exit_code"] in expected, outcome


def test_no_code_in_a_file_was_run(corpus):
    assert not corpus["canary"].exists()


def test_the_canary_would_have_sung(tmp_path):
    import pickle

    pickle.loads(pickle.dumps(hostile_corpus.Trap(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()


def test_nothing_was_written_outside_the_output(corpus):
    assert corpus["after"] == corpus["before"]
    assert not Path("/tmp/escape.csv").exists()
    assert corpus["left"] == ["good.csv", "out.zarr"]


def test_no_file_cost_more_than_a_hundred_megabytes(corpus):
    costly = {Path(o["path"]).name: round(o["grew_mb"]) for o in corpus["outcomes"] if o["grew_mb"] > 100}
    assert costly == {}


def test_bombs_are_refused_for_being_bombs(corpus):
    codes = {Path(o["path"]).name: o["code"] for o in corpus["outcomes"] if "bomb" in Path(o["path"]).name}
    assert len(codes) >= 9
    # The gzip file that lies about its size, and the map, are refused for what they hold.
    assert {name for name, code in codes.items() if code != "SPDE-D104"} == {"lying_bomb.csv.gz", "unit_bomb.toml"}


def test_faults_in_text_are_named_by_line(corpus):
    messages = {Path(o["path"]).name: o["text"] for o in corpus["outcomes"]}
    tables = ("nul", "ragged", "words", "far_year", "bare_cr", "million_columns", "wide_rows")
    for name in [*(f"{table}.csv" for table in tables), "broken.toml", "deep.toml", "binary.toml"]:
        assert "line " in messages[name], messages[name]


def test_the_library_that_invites_pickles_is_not_quoted(corpus):
    assert not [o["text"] for o in corpus["outcomes"] if re.search(r"allow_|ALLOW_|enable", o["text"])]


def test_stores_that_hide_a_codec_are_refused_by_the_gate_and_not_by_zarr(corpus):
    names = "decoy_group second_filter object_compressor unknown_key two_names object_filter named_otherwise bare_name"
    names += " inside_shard index_codec transformer key_twice nested_node lying_id"
    codes = {Path(o["path"]).stem: (o["code"], o["text"]) for o in corpus["outcomes"] if o["path"].endswith(".zarr")}
    for name in names.split():
        code, text = codes[name]
        assert code in ("SPDE-D101", "SPDE-D103")
        assert "cannot be read" not in text, name


def test_a_pipe_in_a_store_is_named_and_not_waited_for(corpus):
    codes = {Path(o["path"]).name: o["code"] for o in corpus["outcomes"]}
    assert codes["pipe.zarr"] == codes["pipe_group.zarr"] == "SPDE-D106"


NAMES = [
    "\x1b[31mred\x1b[0m", "a\rb", '"two\nlines"', "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "\u202egnp.exe",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_steer_a_terminal_are_kept_but_shown_escaped(tmp_path, name):
    place = b",45.0,5.0,100.0,"
    lines = [b"%s,2021-01-01T%02d:00%s%d.5\n" % (name.replace("\r", "\x07").encode(), h, place, h) for h in range(24)]
    (tmp_path / "obs.csv").write_bytes(hostile_corpus.HEADER + b"".join(lines))
    result = ingest_files(tmp_path / "obs.csv", tmp_path / "o.zarr", IngestOptions(quality=False))
    assert result.stations == 1
    (tmp_path / "bad.csv").write_bytes(hostile_corpus.HEADER + b"".join(lines) + lines[0].replace(b"0.5", b"9.5"))
    with pytest.raises(FieldsError) as caught:
        ingest_files(tmp_path / "bad.csv", tmp_path / "p.zarr", IngestOptions(quality=False))
    assert str(caught.value).isprintable()


def test_a_hostile_file_name_is_shown_escaped(tmp_path):
    path = tmp_path / "obs\x1b[2J\n.csv"
    path.write_bytes(b"nothing of use")
    with pytest.raises(FieldsError) as caught:
        ingest_files(path, tmp_path / "o.zarr", IngestOptions(read=ReadOptions()))
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 0.66, 0.99])
def test_a_packed_table_that_was_cut_off_is_damaged_and_no_trap(tmp_path, share):
    """Its last bytes are no size: read as one, they claim anything."""
    write_rows(tmp_path / "obs.csv", Weather(8, 400).rows())
    packed = gzip.compress((tmp_path / "obs.csv").read_bytes())
    for cut in range(5):
        (tmp_path / "obs.csv.gz").write_bytes(packed[: int(share * len(packed)) + 20 + cut])
        with pytest.raises(DataError) as caught:
            ingest_files(tmp_path / "obs.csv.gz", tmp_path / "o.zarr")
        assert caught.value.code == "SPDE-D103" and caught.value.do == "fetch the file again"


def test_a_packed_table_that_inflates_beyond_measure_is_a_trap(tmp_path):
    for size in (3 << 20, 64 << 20):
        (tmp_path / "obs.csv.gz").write_bytes(gzip.compress(b"0" * size))
        with pytest.raises(DataError) as caught:
            ingest_files(tmp_path / "obs.csv.gz", tmp_path / "o.zarr")
        assert caught.value.code == "SPDE-D104"
