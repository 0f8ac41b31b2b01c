"""The console writes where it should, and nothing that a terminal would obey."""

import io
import json
import sys

import pytest

from cli._console import console
from cli._globals import Globals


@pytest.fixture(autouse=True)
def _restored_console():
    yield
    console.configure(Globals())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_escape_sequences_in_data_are_shown_and_not_sent(capsys):
    console.configure(Globals())
    console.text("station \x1b[2J\x07 one\r")
    assert capsys.readouterr().out == "station \\x1b[2J\\x07 one\\x0d\n"


def test_json_has_null_for_numbers_that_are_not_finite(capsys):
    console.configure(Globals(json=True))
    console.result({"a": float("nan"), "b": (1.5, float("inf")), "c": {2: True}, "d": None})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.5, None], "c": {"2": True}, "d": None}


def test_json_survives_a_stdout_that_knows_only_ascii(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    console.configure(Globals(json=True))
    console.result({"latex": "∇²a"})
    stream.flush()
    assert json.loads(stream.buffer.getvalue()) == {"latex": "∇²a"}


def test_text_moves_to_stderr_when_json_is_asked_for(capsys):
    console.configure(Globals(json=True))
    console.text("hello")
    assert capsys.readouterr() == ("", "hello\n")


def test_quiet_keeps_results_and_drops_notes(capsys):
    console.configure(Globals(verbosity=-1))
    console.note("on the way")
    console.text("done")
    assert capsys.readouterr() == ("done\n", "")


def test_a_piped_table_has_one_unbroken_line_a_row(capsys):
    console.configure(Globals())
    console.table(["name", "what"], [["a", "x" * 300], ["long_name", "y"]])
    assert capsys.readouterr().out.splitlines() == [
        "name       what",
        "a          " + "x" * 300,
        "long_name  y",
    ]


def test_a_table_on_a_terminal_never_folds_its_first_column(monkeypatch):
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", screen)
    console.configure(Globals())
    console.table(["name", "what"], [["a_rather_long_operator_name", "words " * 20]])
    assert any(line.startswith("a_rather_long_operator_name") for line in screen.getvalue().splitlines())


@pytest.mark.parametrize(("no_colour", "escapes"), [("", True), ("1", False)])
def test_no_color_is_respected(monkeypatch, no_colour, escapes):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", "xterm")
    console.error(["error SPDE-X000: no"])
    assert ("\x1b[" in screen.getvalue()) is escapes


def test_the_same_warning_is_said_once_and_another_one_too(capsys):
    import logging

    console.configure(Globals())
    console.start_logging()
    log = logging.getLogger("fields.lift.neighbors")
    for stations in (3, 3, 4):
        log.warning("only %d stations", stations)
    assert capsys.readouterr().err.splitlines() == ["warning: only 3 stations", "warning: only 4 stations"]
