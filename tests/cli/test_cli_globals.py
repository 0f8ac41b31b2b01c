"""Global options are found anywhere on the line, and in the environment."""

import pytest

from cli._globals import Globals, take_globals


@pytest.mark.parametrize("line", ["--json ops check", "ops --json check", "ops check --json"])
def test_json_may_stand_anywhere(line):
    assert take_globals(line.split(), {}) == (Globals(json=True), ["ops", "check"])


@pytest.mark.parametrize(
    ("line", "verbosity"),
    [("", 0), ("-v", 1), ("-vv", 2), ("-v --verbose", 2), ("-vvvv", 2), ("-q", -1), ("--quiet", -1), ("-qv", 1)],
)
def test_verbosity_counts_and_saturates(line, verbosity):
    assert take_globals([*line.split(), "doctor"], {})[0].verbosity == verbosity


def test_words_after_the_double_dash_are_left_alone():
    assert take_globals(["ops", "show", "--", "--json"], {}) == (Globals(), ["ops", "show", "--", "--json"])


def test_options_that_only_look_alike_are_left_alone():
    assert take_globals(["-", "-vx", "--jsonl", "-x"], {}) == (Globals(), ["-", "-vx", "--jsonl", "-x"])


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("0", False), ("", False), ("no", False)])
def test_the_environment_sets_the_same(value, expected):
    assert take_globals([], {"STATIONPDE_JSON": value})[0].json is expected


def test_a_typed_option_wins_over_the_environment():
    assert take_globals(["-v"], {"STATIONPDE_QUIET": "1"})[0].verbosity == 1
