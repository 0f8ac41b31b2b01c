"""The page of faults against the tests that it names."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text("utf-8")
NAMED = re.findall(r"`(test_\w+)::(test_\w+)`", PAGE)


def test_every_test_that_the_page_names_is_there():
    files = {path.stem: path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    absent = [f"{file}::{name}" for file, name in NAMED if f"def {name}(" not in files.get(file, "")]
    assert absent == []
    assert len(NAMED) > 100


def test_every_fault_has_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault")]
    assert [row for row in rows if "`test_" not in row] == []
    assert len(rows) >= 70
