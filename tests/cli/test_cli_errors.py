"""Every exception becomes an exit code, a code to look up, and something to do."""

import errno
import json
import os
from pathlib import Path

import pytest
import typer

import cli
from cli._console import console
from cli._errors import Boundary, ExitCode, explain
from cli._globals import Globals
from pde_ops import errors

OURS = str(Path(cli.__file__).parent / "gone.json")


class Diverged(Exception):
    code, exit_code, do, where = "SPDE-T001", 6, "lower the rate", "run › step 3"


@pytest.mark.parametrize(
    ("problem", "code", "exit_code"),
    [
        (errors.UnitError("cannot add [m] to [s]"), "SPDE-U001", 4),
        (errors.UnknownNameError("no operator 'x'"), "SPDE-P002", 2),
        (Diverged("loss is NaN"), "SPDE-T001", ExitCode.DIVERGED),
        (typer.BadParameter("no"), "SPDE-X001", ExitCode.USAGE),
        (OSError(errno.ENOSPC, "no space left"), "SPDE-X002", ExitCode.RESOURCE),
        (OSError(errno.EIO, "input/output error"), "SPDE-X002", ExitCode.RESOURCE),
        (FileNotFoundError(errno.ENOENT, "no such file", "/proc/x.toml"), "SPDE-X002", ExitCode.RESOURCE),
        (FileNotFoundError(errno.ENOENT, "no such file", OURS), "SPDE-X000", ExitCode.BUG),
        (MemoryError(), "SPDE-X003", ExitCode.RESOURCE),
        (KeyboardInterrupt(), "SPDE-X004", ExitCode.INTERRUPTED),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "SPDE-X005", ExitCode.RESOURCE),
        (ModuleNotFoundError("No module named 'pde_ops.gone'", name="pde_ops.gone"), "SPDE-X000", ExitCode.BUG),
        (ImportError("`fields` is not StationPDE's"), "SPDE-X005", ExitCode.RESOURCE),
        (ZeroDivisionError("division by zero"), "SPDE-X000", ExitCode.BUG),
        (KeyError("some key"), "SPDE-X000", ExitCode.BUG),
    ],
)
def test_each_kind_of_exception_has_its_codes(problem, code, exit_code):
    failure = explain(problem)
    assert (failure.code, failure.exit_code) == (code, exit_code)


def test_an_error_is_shown_with_where_and_do_on_lines_of_their_own():
    assert explain(Diverged("loss is NaN")).lines() == [
        "error SPDE-T001: loss is NaN",
        "  where run › step 3",
        "  do    lower the rate",
    ]


def test_ctrl_c_says_what_was_saved_and_what_to_type(capsys):
    from stationpde.errors import Interrupted

    console.configure(Globals())
    for problem in (KeyboardInterrupt(), Interrupted.by_user("stopped by Ctrl-C after step 7", do="type it again")):
        with Boundary() as boundary:
            raise problem
        assert boundary.exit_code == ExitCode.INTERRUPTED
    printed = "interrupted\ninterrupted: stopped by Ctrl-C after step 7\n  do    type it again\n"
    assert capsys.readouterr().err == printed


@pytest.mark.parametrize(
    ("line", "mend"), [("train x --epochs 3", "--set train.epochs=…"), ("doctor --epochs 3", "--help")]
)
def test_a_key_typed_as_an_option_is_answered_with_set(line, mend, stationpde):
    code, _, err = stationpde(*line.split())
    assert code == 2 and "no such option: --epochs" in err and mend in err


def test_the_mend_is_not_repeated_in_the_message():
    failure = explain(errors.UnknownNameError("no operator 'x'", do="did you mean 'y'?"))
    assert (failure.message, failure.do) == ("no operator 'x'", "did you mean 'y'?")


def test_a_defect_asks_for_doctor_and_names_its_place():
    try:
        os.stat(b"\0")
    except ValueError as problem:
        failure = explain(problem)
    assert "stationpde doctor" in failure.do
    assert failure.where.rpartition(":")[0] == __file__


def test_the_boundary_reports_text_to_stderr_and_one_object_to_stdout(capsys):
    console.configure(Globals(json=True))
    with Boundary() as boundary:
        raise Diverged("loss is NaN")
    out, err = capsys.readouterr()
    assert boundary.exit_code == ExitCode.DIVERGED
    assert json.loads(out)["error"] == {
        "code": "SPDE-T001",
        "message": "loss is NaN",
        "where": "run › step 3",
        "do": "lower the rate",
        "exit_code": 6,
    }
    assert err.startswith("error SPDE-T001: loss is NaN\n")


@pytest.mark.parametrize("debug", [True, False])
def test_a_traceback_is_shown_only_with_debug(capsys, debug):
    console.configure(Globals(debug=debug))
    with Boundary():
        raise Diverged("loss is NaN")
    assert ("Traceback" in capsys.readouterr().err) is debug


@pytest.mark.parametrize("words", [("run", "list", "{}/nowhere"), ("run", "list", "{}/file")])
def test_runs_are_not_searched_where_no_directory_is(stationpde, tmp_path, words):
    (tmp_path / "file").write_text("")
    code, _, err = stationpde(*(word.format(tmp_path) for word in words))
    assert code == 2 and "SPDE-T090" in err
    assert stationpde("run", "list", tmp_path)[0] == 0
