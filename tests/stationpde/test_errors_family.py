"""One family of errors: one base, one class for each name, and codes that keep one exit code."""

import ast
import pickle
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import fields.errors
import stationpde.errors
from error_page import error_codes
from fields.errors import FieldsError

ROOT = Path(__file__).parents[2]
PACKAGES = ("pde_ops", "fields", "stationpde", "cli")


def exception_classes(package):
    """List (module, class) of every exception that a package defines, as the source tells."""
    listed = []
    for path in sorted((ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = [getattr(base, "id", getattr(base, "attr", "")) for base in node.bases]
                if any(base.endswith(("Error", "Exception")) for base in bases):
                    listed.append((module, node.name))
    return listed


def test_no_two_errors_have_one_name():
    names = Counter(name for package in PACKAGES for _, name in exception_classes(package))
    assert len(names) > 15
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("package", ["fields", "stationpde"])
def test_every_error_has_fields_error_as_its_base(package):
    # What does not end in `Error` is a signal inside the package that no user sees, such as a spent budget.
    classes = [getattr(import_module(module), name) for module, name in exception_classes(package) if "Error" in name]
    assert classes
    assert [kind.__name__ for kind in classes if not issubclass(kind, FieldsError)] == []


@pytest.mark.parametrize("name", ["UsageError", "ResourceError", "LockedError", "FieldsError"])
def test_shared_errors_are_the_same_objects_in_both_packages(name):
    assert getattr(stationpde.errors, name) is getattr(fields.errors, name)


def test_default_codes_of_classes_are_unique():
    used = defaultdict(set)
    for package in PACKAGES:
        for module, name in exception_classes(package):
            kind = getattr(import_module(module), name)
            if "code" in vars(kind):
                used[kind.code].add(name)
    assert {code: names for code, names in used.items() if len(names) > 1} == {}


def test_a_code_of_training_leads_to_one_exit_code():
    codes = {name: code.exits for name, code in error_codes().items() if name.startswith(("SPDE-T", "SPDE-C"))}
    assert {name: exits for name, exits in codes.items() if len(exits) > 1} == {}


@pytest.mark.parametrize(
    "error",
    [
        stationpde.errors.ConfigError("two\nlines", where="here", do="this"),
        stationpde.errors.UsageError("no", code="SPDE-T001", do="yes"),
        stationpde.errors.TrainingDivergedError("at step 3"),
    ],
)
def test_errors_cross_a_process_border_unchanged(error):
    again = pickle.loads(pickle.dumps(error))
    about = [(e.__class__, e.message, e.code, e.where, e.do, e.exit_code, str(e)) for e in (error, again)]
    assert about[0] == about[1]


def test_the_model_keeps_its_own_line_breaks_and_no_control_character():
    assert stationpde.errors.ConfigError("a\nb\x1b[2J").message == "a\nb\\x1b[2J"


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (fields.errors.DataError("a bad value"), True),
        (fields.errors.DataError("the record is too short yet", code="SPDE-T091"), True),
        (fields.errors.DataError("no station reports yet", code="SPDE-T092"), True),
        (fields.errors.UsageError("no such file", code="SPDE-D100"), True),
        (stationpde.errors.StaleDataError("too old"), True),
        (stationpde.errors.UsageError("other steps", code="SPDE-T094"), False),
        (stationpde.errors.CorruptArtefactError("damaged"), False),
        (stationpde.errors.TrainingDivergedError("not finite"), False),
    ],
)
def test_a_watched_forecast_waits_for_data_and_for_nothing_else(error, waits):
    assert stationpde.errors.can_be_waited_out(error) is waits


def test_the_old_name_of_a_diverged_training_warns():
    with pytest.warns(DeprecationWarning, match="TrainingDivergedError"):
        assert stationpde.errors.DivergedError is stationpde.errors.TrainingDivergedError
