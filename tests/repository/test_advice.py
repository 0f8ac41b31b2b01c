"""Every advice that the source writes can be typed, in each command during which it may be given.

What the tests meet is checked as they meet it (`tests/conftest.py`); this reads what no test may meet.
"""

import re

import pytest

from advice import commands_in, faults_of, options_in, options_of
from advice_in_source import advice_in, written_advice
from cli._errors import TAKE_KEYS, explain
from pde_ops.integrators import integrators
from stationpde.errors import ConfigError

PICTURES = [path for path in options_of() if path[0] == "plot"]
OF_RUNS = [path for path in PICTURES if "--obs" in options_of()[path]]
# Commands that hold observations against what a run was trained on.
GATED = [("forecast",), ("evaluate",), ("report",), *OF_RUNS]
# Commands during which the options that a module names by themselves can be advised. What readers name is completed to
# a whole `data ingest` by the ingest that calls them.
COMMANDS = {
    "cli/_errors.py --debug": list(options_of()),
    "cli/_errors.py --help": list(options_of()),
    "cli/_errors.py --set": [("train",), ("benchmark",), ("ablate",)],
    "cli/plot.py": OF_RUNS,
    "cli/report.py": [("report",)],
    "fields/atomic.py": [("data", "ingest"), ("data", "synth"), ("field", "lift")],
    "fields/ingest/": [("data", "ingest")],
    "fields/lift/capacity.py": [("field", "lift")],
    "fields/lift/crossval.py": [("field", "cv")],
    "fields/lift/methods.py": [("field", "lift"), ("field", "cv")],
    "fields/lift/pinn_lift.py": [("field", "lift"), ("field", "cv")],
    "fields/lift/pinn_settings.py": [("field", "lift"), ("field", "cv")],
    "fields/lift/record.py": [("field", "lift")],
    "fields/lift/sampling.py --at": [("field", "plot")],
    "fields/lift/sampling.py --force": [("field", "sample"), ("field", "plot")],
    "fields/plots/field.py": [("field", "plot")],
    "fields/readers/": [("data", "ingest")],
    # Reports of the future are left out by a forecast alone.
    "fields/readers/rows.py --at": [("forecast",)],
    "fields/readers/rows.py --time-zone": [("forecast",)],
    "fields/readers/table.py --at": [("forecast",)],
    "fields/readers/table.py --time-zone": [("forecast",)],
    "fields/store/api.py": [("data", "ingest"), ("data", "synth"), ("field", "lift")],
    "fields/synthetic/reader.py": [("data", "ingest")],
    "fields/times.py": [("data", "ingest")],
    "fields/units.py": [("data", "ingest")],
    "stationpde/forecasting/uncertain.py": [("forecast",)],
    "stationpde/uncertainty/copula.py": [("forecast",)],
    "stationpde/uncertainty/exceedance.py": [("forecast",)],
    "pde_ops/benchmarking/devices.py": [("ops", "bench")],
    "stationpde/physics/kernel_cards.py": [("ops", "show")],
    "stationpde/config/tree.py": [("train",)],
    "stationpde/data/history_window.py": [("forecast",)],
    "stationpde/data/opening.py": [("evaluate",), ("forecast",), ("report",), *OF_RUNS],
    "stationpde/demo.py": [("demo",)],
    "stationpde/evaluation/benchmark.py": [("benchmark",), ("ablate",)],
    "stationpde/evaluation/contestants.py": [("benchmark",)],
    "stationpde/evaluation/evaluate.py": [("evaluate",)],
    "stationpde/evaluation/fitting.py": [("benchmark",), ("ablate",), ("evaluate",)],
    "stationpde/evaluation/left_out.py": [("benchmark",)],
    "stationpde/evaluation/protocols.py": [("benchmark",)],
    "stationpde/forecasting/export.py": [("export",)],
    "stationpde/forecasting/acceptance.py": GATED,
    "stationpde/forecasting/gates.py --accept": GATED,
    "stationpde/forecasting/gates.py --horizon": [("forecast",)],
    "stationpde/forecasting/gates.py --stations": [("forecast",)],
    "stationpde/forecasting/moment.py": [("report",), ("plot", "map"), ("plot", "series")],
    "stationpde/forecasting/output.py": [("forecast",)],
    "stationpde/plots/style.py": PICTURES,
    "stationpde/plots/transport.py": [("plot", "transport")],
    "stationpde/report/page.py": [("report",)],
    "stationpde/runs/run_directory.py --checkpoint": [("forecast",), ("evaluate",), ("report",), ("export",)],
    "stationpde/training/device.py": [("train",)],
    "stationpde/training/session.py": [("train",)],
}


def commands_of(file, option):
    return next((COMMANDS[key] for key in sorted(COMMANDS, key=len, reverse=True)
                 if f"{file} {option}".startswith(key)), [])  # fmt: skip


def test_every_command_that_is_advised_can_be_typed():
    wrong = {f"{a.file}:{a.line}": faults for a in written_advice() if (faults := faults_of(a.text))}
    assert wrong == {}
    assert sum(len(commands_in(advice.text)) for advice in written_advice()) > 30


def test_an_option_by_itself_is_one_of_each_command_that_may_advise_it():
    named = [(advice, option) for advice in written_advice() for option in options_in(advice.text)]
    unplaced = [f"{a.file}:{a.line} {option}" for a, option in named if not commands_of(a.file, option)]
    assert unplaced == [], "say in `COMMANDS` during which commands these may be advised"
    absent = [f"{a.file}:{a.line}: {option} is no option of {' '.join(path)}" for a, option in named
              for path in commands_of(a.file, option) if option not in options_of()[path]]  # fmt: skip
    assert absent == []
    assert len(named) > 40


def test_the_table_of_commands_has_no_line_without_advice():
    used = {f"{a.file} {option}" for a in written_advice() for option in options_in(a.text)}
    assert [key for key in COMMANDS if not any(name.startswith(key) for name in used)] == []


def test_integrators_that_are_advised_exist():
    named = {name for advice in written_advice() for name in re.findall(r"integrators\['(\w+)'\]", advice.text)}
    assert named and [name for name in named if name not in integrators] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("stationpde data ingst SRC -o OUT.zarr", "No such command"),
        ("stationpde data ingest SRC -o OUT.zarr --units p=Pa", "--units"),
        ("mend it: stationpde data ingest SRC -o OUT.zarr --unit", "requires an argument"),
        ("stationpde run list DIR shows the runs", "unexpected extra argument"),
        ("stationpde train demo --data PATH", "deprecated"),
        ("add --overwrite to replace it", "--overwrite is no option of any command"),
        ("train.epoch=3", "no key train.epoch"),
        ("train.batch=many", "train.batch"),
        ("pip install 'stationpde[exports]'", "no extra exports"),
        ("stationpde data info 'STORE", "No closing quotation"),
    ],
)
def test_advice_that_cannot_be_typed_is_noticed(text, fault):
    assert fault in "; ".join(faults_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "stationpde data ingest 'my obs.csv' -o o.zarr --unit p=Pa   if it is; then the same with o.zarr",
        "`stationpde data where table` shows one",
        "stationpde train … --run RUN",
        "add --force (in Python: force=True) to replace it",
        "a smaller train.lr, or train.batch=4",
        "pip install --force-reinstall stationpde",
        "install stationpde 2.0 or later",
    ],
)
def test_advice_that_can_be_typed_passes(text):
    assert faults_of(text) == ()


def test_an_option_of_another_command_is_none_of_the_one_that_runs():
    assert faults_of("add --data PATH", ("benchmark",)) == ("--data is no option of stationpde benchmark",)
    assert faults_of("--station-list FILE.csv", ("forecast",)) == ()
    assert faults_of("--step 1h", ("forecast",)) == ("--step is no option of stationpde forecast",)


def test_advice_is_found_wherever_the_source_writes_it():
    source = (
        "def f(x, do=''):\n    do = 'one'\n    raise E('m', do=f'two {x}' if x else 'three')\n"
        "def _advice(x):\n    return 'four' + x\n"
        "problem.do = 'five'\nProblem('c', 'w', 'wh', 'why', 'six')\nE('m', do=_SEVEN)\n_SEVEN = 'seven'\n"
    )
    assert [a.text for a in sorted(advice_in(source, "x.py"), key=lambda a: a.line)] == [
        "one", "two 1", "three", "four1", "five", "six", "seven",
    ]  # fmt: skip


def test_keys_are_written_as_options_by_the_commands_that_take_them():
    assert set(TAKE_KEYS) == {path for path, options in options_of().items() if "--set" in options}
    problem = ConfigError("too many", do="train.batch=4, or --set train.recompute=true; see docs/x.md")
    for path in options_of():
        advised = explain(problem, [*path, "x", "--flag"]).do
        expected = "--set train.batch=4" if path in TAKE_KEYS else "train.batch=4"
        assert advised == problem.do.replace("train.batch=4", expected)
