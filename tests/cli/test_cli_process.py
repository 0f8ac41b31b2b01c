"""The command as a process: exit codes, clean streams, lightness, interruption, plug-ins."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import stationpde


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", *words],
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("module", ["cli", "cli.main"])
def test_either_module_is_the_command(module):
    line = [sys.executable, "-m", module, "--version"]
    outcome = subprocess.run(line, capture_output=True, encoding="utf-8", check=False)
    assert outcome.returncode == 0 and stationpde.__version__ in outcome.stdout


HEAVY = {"torch", "numpy", "pint", "metpy", "numba", "matplotlib", "pandas", "rich", "pde_ops"}


@pytest.mark.parametrize("line", ["--help", "ops --help", "ops check --help", "--version", "--nonsense", ""])
def test_nothing_heavy_is_imported_to_answer(line):
    script = f"""
        import sys
        sys.argv = ["stationpde", *{line.split()!r}]
        from cli.main import main
        try:
            main()
        except SystemExit:
            pass
        print("LOADED", *(set(sys.modules) & {HEAVY!r}))
    """
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, encoding="utf-8", check=True
    )
    assert outcome.stdout.splitlines()[-1] == "LOADED"


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("--help", 0),
        ("-h", 0),
        ("", 0),
        ("--version", 0),
        ("--nonsense", 2),
        ("nonsense", 2),
        ("ops", 2),
        ("ops show", 2),
    ],
)
def test_exit_codes_of_the_command_line_itself(line, exit_code):
    assert run(*line.split()).returncode == exit_code


def test_version_is_one_line():
    assert run("--version").stdout == f"stationpde {stationpde.__version__}\n"


@pytest.mark.parametrize("line", ["opps --json", "--json opps", "ops shw --json"])
def test_a_usage_error_is_json_on_stdout_and_words_on_stderr(line):
    outcome = run(*line.split())
    error = json.loads(outcome.stdout)["error"]
    assert (error["code"], error["exit_code"], outcome.returncode) == ("SPDE-X001", 2, 2)
    assert outcome.stderr.startswith("error SPDE-X001: no such command")
    assert "  do    stationpde" in outcome.stderr


def test_the_environment_asks_for_json_too():
    assert json.loads(run("--version", STATIONPDE_JSON="1").stdout) == {"version": stationpde.__version__}


BROKEN = """
import signal, sys, time, types
import stationpde.physics

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored

catalogue = types.ModuleType("stationpde.physics.operator_cards")  # in place of the real one, which imports torch
sys.modules["stationpde.physics.operator_cards"] = stationpde.physics.operator_cards = catalogue


def cards(pattern):
    {body}


catalogue.cards = cards
sys.argv = ["stationpde", "ops", "list", *{options!r}]
from cli.main import main
main()
"""


@pytest.mark.parametrize("options", [["--debug"], []])
def test_a_defect_exits_1_asks_for_doctor_and_hides_its_traceback_unless_asked(options):
    script = BROKEN.format(body="raise ZeroDivisionError('by design')", options=options)
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=False)
    assert outcome.returncode == 1
    assert "error SPDE-X000: unexpected ZeroDivisionError: by design" in outcome.stderr
    assert "stationpde doctor" in outcome.stderr
    assert ("Traceback" in outcome.stderr) is bool(options)


def test_ctrl_c_exits_130_without_a_traceback():
    script = BROKEN.format(body="print('READY', flush=True); time.sleep(60)", options=[])
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout.readline() == "READY\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted\n")


def test_a_reader_that_stops_early_is_no_error():
    line = f"{sys.executable} -m cli --version | true"
    outcome = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")


PLUGIN = '''
import pde_ops as po

@po.operator("decay", inputs={"a": "=A", "rate": "1/s"}, output="=A / s", latex=r"{rate}\\,{a}",
             references=["Nobody (1900), Eq. 0"], properties={"linear_in": ("a", "rate"), "pointwise": True},
             domain={"a": (-1.0, 1.0), "rate": (0.0, 1.0)})
def decay(a, rate, *, grid):
    """Loss at a rate.

    .. math:: r a

    Parameters
    ----------
    a : any unit [A]
    rate : 1/s

    Returns
    -------
    A/s
    """
    return rate * a
'''


@pytest.fixture
def plugins(tmp_path):
    """Write a folder with one distribution that publishes a sound operator and one that fails when it is imported."""
    (tmp_path / "sound_plugin.py").write_text(PLUGIN)
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no such library')\n")
    for name, entry in {"sound": "decay = sound_plugin:decay", "broken": "ruin = broken_plugin:ruin"}.items():
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[pde_ops.operators]\n{entry}\n")
    return str(tmp_path)


def test_a_third_party_operator_is_listed_shown_and_checked_and_a_broken_one_harms_nothing(plugins):
    listed = run("ops", "list", "--json", PYTHONPATH=plugins)
    names = {c["name"]: c["owner"] for c in json.loads(listed.stdout)["operators"]}
    assert names["decay"].startswith("sound_plugin")
    assert "laplacian" in names
    assert "ruin" not in names
    assert "'ruin' (broken_plugin:ruin) failed to load" in listed.stderr
    checked = run("ops", "check", "decay", "--json", PYTHONPATH=plugins)
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["failed"] == []


def test_doctor_names_the_broken_plugin_and_what_to_do(plugins):
    diagnosis = json.loads(run("doctor", "--json", PYTHONPATH=plugins).stdout)
    assert diagnosis["plugins"]["decay"] == "sound_plugin:decay of sound"
    assert [p for p in diagnosis["problems"] if "'ruin'" in p["what"]]
