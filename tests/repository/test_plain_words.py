"""Names say what a thing is, and docstrings of functions start with a verb and its object.

`python tests/repository/test_plain_words.py [PATH …]` lists what is left in the files below the paths.
"""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pde_ops", "fields", "stationpde", "cli", "benchmarks")

# A result is named for what it is: `weights`, not `found`.
RIDDLES = {
    "found", "made", "known", "given", "own", "passed", "some", "told", "asked", "kept", "usual", "said", "wanted",
    "taken", "met", "stuff", "thing", "things",
}  # fmt: skip

# Names of functions, classes and attributes that say as little; in the rooms, where nothing outside depends on them.
ROOMS = ("fields", "stationpde", "cli")
RIDDLES_OF_DEFINITIONS = RIDDLES | {"alone", "together", "look", "silent", "workshop"}
# Names that checkpoints hold, and a mask of stations that never report.
NAMES_THAT_STAY = {"stationpde/model/model.py: kept", "stationpde/baselines/correlation.py: own",
                   "fields/ingest/survey.py: silent"}  # fmt: skip

# First words that open a noun phrase or a riddle. A docstring says what the function does: `Return …`, `Fit …`.
NO_VERBS = {
    "the", "a", "an", "what", "where", "whether", "how", "who", "which", "all", "every", "each", "one", "two", "no",
    "nobody", "nothing", "none", "not", "same", "this", "that", "those", "these", "it", "its", "if", "when", "while",
    "at", "in", "on", "of", "for", "from", "to", "by", "with", "without", "as", "than", "most", "more", "less", "least",
    "his", "her", "their", "our", "only", "also", "largest", "smallest", "first", "last", "mean", "means", "sums",
    "names", "number", "numbers", "values", "value", "seconds", "times", "weights", "weight", "lines", "line",
    "rows", "row", "text", "texts", "file", "files", "path", "paths", "index", "indices", "shape", "shapes", "size",
    "share", "shares", "forecast", "forecasts", "error", "errors", "stations", "station", "places", "field", "fields",
    "grid", "grids", "batch", "batches", "windows", "window", "variables", "variable", "units", "unit", "latitude",
    "altitude", "elevation", "pressure", "temperature", "wind", "humidity", "departures", "predictors", "statistics",
    "bilinear", "linear", "root", "square", "squared", "standard", "relative", "specific", "potential", "code", "codes",
    "bytes", "groups", "parts", "part", "columns", "column", "keys", "key", "settings", "options", "arguments", "steps",
    "days", "day", "hours", "hour", "distances", "distance", "positions", "position", "coordinates", "coefficients",
    "parameters", "tensors", "tensor", "arrays", "array", "data", "dataset", "record", "records", "results", "result",
    "scores", "score", "uniform", "enough", "everything", "anything", "something", "there", "here", "then", "both",
    "either", "neither", "several", "many", "few", "half", "twice", "once", "never", "always", "just", "still", "far",
}  # fmt: skip


def _files(*places: Path) -> list[Path]:
    return sorted(path for place in places for path in ([place] if place.is_file() else place.rglob("*.py")))


def _names_a_thing(node: ast.AST) -> bool:
    """Tell whether a noun is right: a property is a thing, and an operator is a physical process."""
    called = [getattr(d, "func", d) for d in node.decorator_list]
    names = {getattr(d, "attr", getattr(d, "id", "")) for d in called}
    return bool(names & {"property", "cached_property", "overload", "operator", "scalar_function"})


def _targets(node: ast.AST) -> list[ast.Name]:
    if isinstance(node, ast.Assign):
        outer = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.comprehension):
        outer = [node.target]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        outer = [node.optional_vars]
    else:
        return []
    return [inner for target in outer for inner in ast.walk(target) if isinstance(inner, ast.Name)]


def riddles_in(path: Path) -> list[str]:
    """List what of a file is not said in plain words, with its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    listed = []
    # A field such as `passed: bool` is a statement about its record, and says so with its type.
    statements = {
        id(field)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.annotation, ast.Name) and field.annotation.id == "bool"
    }
    for node in ast.walk(tree):
        if id(node) in statements:
            continue
        listed += [(n.lineno, f"name `{n.id}`") for n in _targets(node) if n.id in RIDDLES]
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        words = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        listed += [(node.lineno, f"argument `{word}` of {node.name}") for word in words if word in RIDDLES]
        text = ast.get_docstring(node)
        if text and not _names_a_thing(node):
            first = text.split()[0].strip("`'\",.:;()*").lower()
            if first in NO_VERBS or not first.isalpha():
                listed.append((node.lineno, f"docstring of {node.name} starts with '{text.split(chr(10))[0][:70]}'"))
    return [f"{path.relative_to(ROOT)}:{line}: {what}" for line, what in sorted(set(listed))]


def defined_riddles_in(path: Path) -> list[str]:
    """List functions, classes and attributes of a file whose whole name is a riddle, a leading underscore aside."""
    listed = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        where = path.relative_to(ROOT)
        if name.strip("_").lower() in RIDDLES_OF_DEFINITIONS and f"{where}: {name}" not in NAMES_THAT_STAY:
            listed.append(f"{where}:{node.lineno}: `{name}`")
    return listed


@pytest.mark.parametrize("package", ROOMS)
def test_definitions_are_named_in_plain_words(package):
    assert [entry for path in _files(ROOT / package) for entry in defined_riddles_in(path)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_names_and_docstrings_are_plain_words(package):
    listed = [entry for path in _files(ROOT / package) for entry in riddles_in(path)]
    assert listed == [], f"{len(listed)} left:\n" + "\n".join(listed[:40])


def test_a_riddle_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "m.py").write_text('def f(given):\n    """Where a station is silent."""\n    found = given\n')
    assert len(riddles_in(tmp_path / "m.py")) == 3
    (tmp_path / "n.py").write_text("class Told:\n    def __init__(self):\n        self._kept = _alone()\n")
    assert len(defined_riddles_in(tmp_path / "n.py")) == 2


if __name__ == "__main__":
    chosen = [Path(word).resolve() for word in sys.argv[1:]] or [ROOT / package for package in PACKAGES]
    sys.stdout.write("\n".join(entry for path in _files(*chosen) for entry in riddles_in(path)) + "\n")
