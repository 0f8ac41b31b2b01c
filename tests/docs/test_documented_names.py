"""Every name that the documentation shows can be imported, and every command line is accepted by the parser.

Both hold for what the pages show now and for what they showed before (`documented_before`): public names and commands
keep working when modules move and options get new names.
"""

import importlib
import re
import shlex
import warnings
from pathlib import Path

import pytest
import typer

from command_lines import LEAVES, documented_names, mentioned_lines, parse, typed_lines, words_of
from documented_before import MENTIONED, NAMES, TYPED, lines

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def resolve(name: str) -> object:
    """Import a dotted name: the longest module, then attributes of it."""
    parts = name.split(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a moved module says where it is now
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            try:
                value = importlib.import_module(module)
            except ModuleNotFoundError as problem:
                if not module.startswith(str(problem.name)):
                    raise
                continue
            for part in parts[length:]:
                value = getattr(value, part)
            return value
    raise ModuleNotFoundError(name)


NOW = set().union(*(documented_names(page) for page in PAGES))


@pytest.mark.parametrize("name", sorted({*NAMES.split(), *NOW}))
def test_a_documented_name_can_be_imported(name):
    assert resolve(name) is not None


def test_a_name_that_is_gone_is_noticed():
    with pytest.raises(AttributeError):
        resolve("stationpde.report.view.stare")
    with pytest.raises(ModuleNotFoundError):
        resolve("nowhere.at_all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_command_lines_of_a_page_are_accepted_and_use_present_names(page):
    for line in typed_lines(page):
        assert parse(words_of(line))[1] == [], line
    for line in mentioned_lines(page):
        assert parse(words_of(line), complete=False)[1] == [], line


def test_lines_are_found_in_blocks_in_prose_and_behind_the_times_of_cron():
    text = {page.stem: [*typed_lines(page), *mentioned_lines(page)] for page in PAGES}
    assert sum(map(len, text.values())) > 150
    assert any("12 * * * *" in line for line in text["forecasting"])
    assert any(line.startswith("stationpde ops check") for line in text["README"])


@pytest.mark.parametrize("line", lines(TYPED))
def test_a_line_that_was_documented_before_is_still_accepted(line):
    assert parse(shlex.split(line))[0][0] in shlex.split(line)


@pytest.mark.parametrize("line", lines(MENTIONED))
def test_a_line_that_was_mentioned_before_is_still_accepted(line):
    assert parse(shlex.split(line), complete=False)[0][0] in shlex.split(line)


@pytest.mark.parametrize(
    "line", ["train demo --epoch 3", "field cv", "dat info x", "data info", "report run --windows many"]
)
def test_a_line_that_cannot_run_is_noticed(line):
    with pytest.raises(typer.TyperException):
        parse(line.split())


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_the_example_in_the_help_of_a_command_is_one_of_it_and_can_be_typed(path):
    example = re.search(r"Example: (stationpde .*)", LEAVES[path].help or "")
    assert example is not None
    assert parse(words_of(example[1])) == (path, [])


def test_the_commands_that_the_demo_advises_can_be_typed():
    from stationpde.demo import next_commands

    for line in next_commands(Path("out/demo")):
        assert parse(words_of(line))[1] == [], line
