"""One name of an option has one meaning in every command, and old names still work with a warning."""

import json

import pytest

from cli._renamed import COMMANDS, OPTIONS, present_names
from command_lines import LEAVES

# What may differ between commands, and why.
ALLOWED = {
    "--output": ("metavar", "help"),  # a store, a folder, a page or a picture
    "--device": ("help",),  # training chooses one, a benchmark of the operators has two
    "--method": ("type",),  # `field lift` takes one, `field cv` compares several
    "--exceed": ("type", "help"),  # `forecast` takes several, `plot spread` draws one
    "--error": ("help", "names"),  # written by default, or drawn on demand
    "--uncertainty": ("help",),  # of one run, or of all models
}


def options_by_name():
    listed = {}
    for path, command in LEAVES.items():
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                facts = {
                    "type": str(option.type_descriptor.annotation),
                    "metavar": option.metavar,
                    "help": option.help,
                    "names": (*option.opts, *option.secondary_opts),
                }
                listed.setdefault(max(option.opts, key=len), {})[" ".join(path)] = facts
    return listed


@pytest.mark.parametrize(("name", "uses"), options_by_name().items(), ids=lambda x: x if isinstance(x, str) else "")
def test_an_option_has_one_type_metavar_and_help_in_every_command(name, uses):
    for fact in ("type", "metavar", "help", "names"):
        if fact not in ALLOWED.get(name, ()):
            values = {command: facts[fact] for command, facts in uses.items()}
            assert len(set(values.values())) == 1, values


def test_the_exceptions_are_needed():
    for name, facts in ALLOWED.items():
        uses = options_by_name()[name]
        assert [fact for fact in facts if len({use[fact] for use in uses.values()}) == 1] == []


def test_every_option_that_takes_a_value_says_what_it_is():
    options = [(path, o) for path, command in LEAVES.items() for o in command.params if o.param_type_name == "option"]
    assert [(path, o.name) for path, o in options if not o.help] == []
    valued = [(path, o) for path, o in options if not o.is_flag and not o.hidden]
    assert [(path, o.opts) for path, o in valued if not o.metavar] == []


OLD = [(path, old) for path, table in OPTIONS.items() for old in table]


@pytest.mark.parametrize(("path", "old"), OLD, ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_an_old_option_stands_for_one_that_exists_and_warns(path, old):
    entry = OPTIONS[path][old]
    new = entry.new.partition(" ")[0]
    visible = {o for option in LEAVES[path].params if not option.hidden for o in option.opts}
    assert new in visible and (old not in visible or entry.takes)
    words, warnings = present_names([*path, old, "7"])
    assert warnings == [f"warning: {old} is deprecated; use {entry.new}"]
    assert words == [*path, *(entry.words or (old,)), "7"]
    assert present_names([*path, f"{old}=7"])[1] == ([] if entry.takes else warnings)


@pytest.mark.parametrize(("path", "old"), OLD, ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_an_old_option_is_not_in_the_help(path, old, stationpde):
    code, out, _ = stationpde(*path, "--help")
    assert code == 0
    assert OPTIONS[path][old].takes or f"{old} " not in out


@pytest.mark.parametrize(
    "line",
    [
        "train demo --data a --obs b",
        "evaluate run --windows=3 --stride 2",
        "demo --out a -o b",
        "demo --stations 9 --station-count 9",
        "benchmark x --resume auto --no-resume",
    ],
)
def test_an_old_and_its_new_option_exclude_each_other(line, stationpde):
    code, _, err = stationpde(*line.split())
    assert code == 2 and "give one of the two" in err


def test_a_line_with_present_names_stays_as_it_is():
    for line in ("benchmark s --resume never", "forecast r --obs o --stations f.csv", "data ingest s --every 3"):
        assert present_names(line.split()) == (line.split(), [])
    assert present_names(["data", "synth", "--", "--stations"]) == (["data", "synth", "--", "--stations"], [])


def test_old_names_work_and_warn_on_stderr_alone(tmp_path, stationpde):
    line = ("data", "synth", tmp_path / "o.zarr", "--stations", 9, "--days", 2, "--json")
    code, out, err = stationpde(*line)
    assert code == 0 and json.loads(out)["stations"] == 9
    assert err.count("warning: --stations is deprecated; use --station-count") == 1


@pytest.mark.parametrize("old", COMMANDS)
def test_an_old_command_is_hidden_and_leads_to_the_new_one(old, stationpde):
    code, out, err = stationpde(*old, "--help")
    assert code == 0 and f"stationpde {' '.join(COMMANDS[old])}" in out
    assert f"warning: stationpde {' '.join(old)} is deprecated; use stationpde {' '.join(COMMANDS[old])}" in err
    assert old not in LEAVES


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (["data", "ingest", "a.csv", "-o", "o.zarr", "--unit", "t=K", "--unit", "t=degC"], "--unit"),
        (["forecast", "run", "--obs", "a.csv", "--unit", "t=K", "--unit", "t=degC"], "--unit"),
        (["train", "a.zarr", "--missing", "p=standard-atmosphere", "--missing", "p=none"], "--missing"),
        (["train", "a.zarr", "--set", "train.epochs=1", "--set", "train.epochs=2"], "--set"),
        (["config", "show", "--set", "train.epochs=1", "--set", "train.epochs=2"], "--set"),
        (["benchmark", "a.zarr", "-o", "o", "--set", "train.epochs=1", "--set", "train.epochs=2"], "--set"),
    ],
    ids=lambda x: " ".join(x[:2]) if isinstance(x, list) else x,
)
def test_a_name_with_two_values_is_refused(stationpde, line, option):
    code, _, err = stationpde(*line)
    assert code == 2 and "is given as" in err and option in err


def test_a_name_with_one_value_twice_is_taken(stationpde):
    assert stationpde("config", "show", "--set", "train.epochs=2", "--set", "train.epochs=2")[0] == 0


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (["forecast", "run", "--obs", ""], "--obs"), (["data", "ingest", "x.csv", "-o", "  "], "-o"),
        (["data", "ingest", "x.csv", "-o", "o.zarr", "--time-zone="], "--time-zone"),
        (["train", "", "--run", "r"], "an argument"),
    ],
)  # fmt: skip
def test_an_empty_word_is_refused_and_not_read_as_this_folder(stationpde, line, option):
    code, _, err = stationpde(*line)
    assert code == 2
    assert f"{option}: it is empty; is a variable of the shell unset?" in err


@pytest.mark.parametrize(
    "line",
    [
        ["field", "lift", "demo", "o.zarr", "--workers", "100000"],
        ["train", "demo", "--run", "r", "--nproc", "100000"],
        ["benchmark", "demo", "--models", "persistence", "-o", "b", "--jobs", "100000"],
    ],
)
def test_more_processes_than_a_machine_runs_are_refused_before_the_first(stationpde, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    code, _, err = stationpde(*line)
    assert code == 2
    assert "100000 processes are more than this machine" in err


def test_commas_alone_name_no_station(stationpde, tmp_path):
    (tmp_path / "a.csv").write_text("station,time,lat,lon,alt,t\n")
    code, _, err = stationpde("data", "ingest", tmp_path / "a.csv", "-o", tmp_path / "a.zarr", "--only", ",")
    assert code == 2 and "',' names nothing" in err
