"""The table of commands: every entry leads to its command, and its line of help says what the command says."""

import importlib

import pytest
from typer.testing import CliRunner

from cli._lazy import COMMANDS
from cli.main import app


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_answers_with_its_own_help(name):
    answer = CliRunner().invoke(app, [name, "--help"])
    assert answer.exit_code == 0, answer.output
    assert f"Usage: stationpde {name} " in answer.output


GROUPS = [name for name, entry in COMMANDS.items() if ": " in entry.summary]


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_listed_with_all_its_commands(name):
    group = importlib.import_module(COMMANDS[name].module).app
    listed = COMMANDS[name].summary.partition(": ")[2].rstrip(".").split(", ")
    assert sorted(listed) == sorted(c.name or c.callback.__name__ for c in group.registered_commands)
    assert COMMANDS[name].summary == group.info.help


def test_help_lists_every_command_in_full():
    shown = CliRunner().invoke(app, ["--help"]).output
    for name, entry in COMMANDS.items():
        assert f"  {name} " in shown
        assert entry.summary in shown, "the line was cut"


def test_help_imports_no_command(monkeypatch):
    def refuse(name):
        raise AssertionError(f"{name} was imported")

    monkeypatch.setattr("cli._lazy.import_module", refuse)
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0


def test_the_nearest_name_is_offered_for_a_misspelt_one():
    answer = CliRunner().invoke(app, ["trian"])
    assert answer.exit_code == 2
    assert "'train'" in answer.output
