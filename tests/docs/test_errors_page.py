"""The page of error codes against the source that gives them."""

import re
from functools import lru_cache
from pathlib import Path

import error_page
from cli._errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]
# Reading the source of all packages takes seconds: once for all tests, and not before one of them runs.
codes = lru_cache(maxsize=1)(error_page.error_codes)
page_of_the_source = lru_cache(maxsize=1)(error_page.errors_page)


def test_the_page_is_what_the_source_says():
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert page == page_of_the_source(), "run: python docs/hooks/error_page.py docs/errors.md"


def test_every_code_in_the_source_is_on_the_page():
    sources = [p for package in error_page._PACKAGES for p in (ROOT / package).rglob("*.py") if p.stem != "error_page"]
    written = {code for path in sources for code in re.findall(r"SPDE-[A-Z]\d{3}", path.read_text("utf-8"))}
    page = page_of_the_source()
    assert written == set(codes())
    assert [code for code in sorted(written) if f"| `{code}` |" not in page] == []


def test_a_code_has_a_meaning_and_the_exit_codes_of_the_command():
    assert [name for name, code in codes().items() if not code.says and name not in error_page._COMPOSED] == []
    exit_codes = {int(number) for number in ExitCode}
    assert {name: code.exits for name, code in codes().items() if not code.exits <= exit_codes} == {}


def test_an_error_that_stops_the_command_comes_with_a_way_out():
    page = page_of_the_source()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `SPDE-")]
    assert [row[0] for row in rows if row[1].strip() and not row[-1].strip(" |")] == []


def test_the_reading_of_the_source_finds_a_new_code(tmp_path):
    for name in error_page._PACKAGES:
        (tmp_path / name).mkdir()
    (tmp_path / "fields" / "x.py").write_text(
        "class Odd(Exception):\n    '''Something odd.'''\n    code = 'SPDE-D900'\n    exit_code = 3\n"
        "def go(n):\n    raise Odd(f'{n} is odd', code='SPDE-D901', do='make it even')\n"
    )
    codes_of_file = error_page.error_codes(tmp_path)
    assert codes_of_file["SPDE-D900"].says == ["Something odd"]
    assert (codes_of_file["SPDE-D901"].says, codes_of_file["SPDE-D901"].do) == (["… is odd"], ["make it even"])
    assert codes_of_file["SPDE-D901"].exits == {3}
