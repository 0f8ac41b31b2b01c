"""Write the page of error codes in the documentation, from the source of all packages.

``python docs/hooks/error_page.py docs/errors.md`` writes it; a test compares the file with the source. The texts are
those of the places where a code is raised, so that the page cannot differ from the messages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Code", "error_codes", "errors_page"]

Classes = dict[str, ast.ClassDef]

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("cli", "stationpde", "fields", "pde_ops")
_CODE = re.compile(r"SPDE-[A-Z]\d{3}")
# Placeholder for a value that is known only at run time.
_OPEN = "…"
_MOST = 4
# Prefix of codes: their subject, and a remedy where the message names none.
_FAMILIES = {
    "SPDE-D00": ("Paths, names and declared units", "`stationpde data ingest --help` lists the options"),
    "SPDE-D01": (
        "Values and positions that are not what they are said to be",
        "declare what they are: `--unit NAME=UNIT`",
    ),
    "SPDE-D02": (
        "Content that cannot be used, or only in part",
        "mend the source, or leave stations out with `--drop`",
    ),
    "SPDE-D03": ("Structure: stations, times, variables", "mend the source, or describe it in a column map (`--map`)"),
    "SPDE-D04": ("Quality control", "`stationpde data info STORE` counts what was flagged"),
    "SPDE-D05": (
        "Damaged, unfinished or foreign stores",
        "ingest the data again, or copy the store again from where it is whole",
    ),
    "SPDE-D06": ("The machine, and other writers", "wait for the other process to end, or choose another output"),
    "SPDE-D07": ("Lift", "`stationpde field lift --help` lists the options"),
    "SPDE-D08": ("Elevation models, cross-validation, fields", "give another file"),
    "SPDE-D09": ("Places and pictures", "mend the list of places at the line that is named"),
    "SPDE-D10": (
        "Files that are not what they seem, or not safe",
        "get the file again from its source, or save it in a plain form",
    ),
    "SPDE-D11": ("Times", "write it as the message shows"),
    "SPDE-D12": (
        "Tables and column maps",
        "mend the line that is named; `stationpde data where table` shows a column map",
    ),
    "SPDE-D13": ("Station lists", "complete or correct the list"),
    "SPDE-D14": ("Arrays and datasets", "save it in the layout that the message names; see [ingest](ingest.md)"),
    "SPDE-D15": ("Windows, splits and statistics", "give a longer record, or shorter windows"),
    "SPDE-C": ("Configuration", "`stationpde config show` prints every key with its meaning"),
    "SPDE-R": ("Reports, pictures and the demo", "the message names what there is to choose from"),
    "SPDE-T11": (
        "Forecasts from what a run was not trained for",
        "give observations of the network that the run was trained on, or insist with `--accept`: "
        "[what is refused](forecasting.md#what-is-refused)",
    ),
    "SPDE-Q": ("Uncertainty of forecasts", "`stationpde calibrate RUN --obs STORE`; see [uncertainty](uncertainty.md)"),
    "SPDE-T": ("Models, training and runs", "the message names the run and what to type"),
    "SPDE-P": (
        "Operators and systems",
        "the message names both sides and what to change; see [operators](operators.md)",
    ),
    "SPDE-U": ("Units of equations", "convert one side, or declare the unit that is meant"),
    "SPDE-X": ("The command itself", "the message says what the system answered"),
    "SPDE-": ("Others", "the message says what to do"),
}
# Messages that are composed at run time, so that no single place in the source holds them.
_COMPOSED = {
    "SPDE-C006": "`…` was removed and is fixed at …, the run has …",
    "SPDE-D011": "… looks like nothing known in […]",
    "SPDE-D012": "… looks like … but is declared …",
    "SPDE-D016": "pressure is reduced to the sea but declared at station level, or the other way round",
    "SPDE-D051": "chunk … of `…` is missing",
    "SPDE-D052": "chunk … of `…` is empty or has another size",
    "SPDE-D053": "chunk … of `…` was changed: its SHA-256 differs",
    "SPDE-T102": "there is no whole export: …",
    "SPDE-X001": "the command line cannot be understood: no such command, option or value",
    "SPDE-X002": "the system's own words: no space left, permission denied, read-only file system",
    "SPDE-X005": "No module named '…'",
}
_INTRODUCTION = """# Error codes

<!-- Written by `python docs/hooks/error_page.py docs/errors.md`; edit the messages in the source instead. -->

Every error code with its message, the exit code of the command, and the remedy. A `…` stands for a name or a number of
your data. Codes without an exit code are warnings and notices: the command continues. Codes are stable;
`stationpde … --json` gives them as `error.code`.
"""


@dataclass(slots=True)
class Code:
    """Messages, remedies and exit codes of one code."""

    says: list[str] = field(default_factory=list)
    do: list[str] = field(default_factory=list)
    exits: set[int] = field(default_factory=set)

    def add(self, says: str, do: str, exit_code: int | None) -> None:
        """Add one place where the code is raised."""
        for text, texts in ((says, self.says), (do, self.do)):
            if text.replace(_OPEN, "").strip(" :,;") and text not in texts:
                texts.append(text)
        if exit_code is not None:
            self.exits.add(exit_code)


def error_codes(root: Path = _ROOT) -> dict[str, Code]:
    """Collect every code in the packages below ``root``."""
    everything: Classes = {}
    sources: list[tuple[Path, ast.Module, Classes]] = []
    for package in _PACKAGES:
        trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted((root / package).rglob("*.py"))}
        in_package = {
            node.name: node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        }
        everything = {**in_package, **everything}
        sources += [(path, tree, in_package) for path, tree in trees.items() if path != Path(__file__).resolve()]
    codes: defaultdict[str, Code] = defaultdict(Code)
    for path, tree, in_package in sources:
        classes = {
            **everything,
            **in_package,
        }  # the package comes first: classes of `pde_ops` may share a name with others
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for code in _choices(_attribute(classes, node.name, "code", inherited=False)):
                    says = (ast.get_docstring(node) or "").partition("\n")[0].rstrip(".")
                    do = _text(_attribute(classes, node.name, "do"))
                    codes[code].add(says, do, _exit_of(classes, node.name))
        for code, call in _calls(tree):
            codes[code].add(*_account(call, classes, path))
    return dict(sorted(codes.items()))


def errors_page(root: Path = _ROOT) -> str:
    """Write the whole page as Markdown."""
    parts = [_INTRODUCTION]
    codes = error_codes(root)
    for start, (title, remedy) in _FAMILIES.items():
        mine = {name: codes.pop(name) for name in list(codes) if name.startswith(start)}
        if mine:
            rows = [_row(name, code, remedy) for name, code in mine.items()]
            parts += [f"## {title}", "", "| code | exit | says | do |", "|---|---|---|---|", *rows, ""]
    return "\n".join(parts)


def _row(name: str, code: Code, remedy: str) -> str:
    says = [_COMPOSED[name], *(text for text in code.says if len(text) > 20)] if name in _COMPOSED else code.says
    do = code.do or ([remedy] if code.exits else [])
    return f"| `{name}` | {', '.join(map(str, sorted(code.exits)))} | {_cell(says)} | {_cell(do)} |"


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with a code, as ``code=`` or positional, also where one of two is chosen."""
    local = _chosen_codes(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        for argument in (*node.args, *(word.value for word in node.keywords if word.arg == "code")):
            for value in local.get(argument.id, []) if isinstance(argument, ast.Name) else _choices(argument):
                yield value, node


def _choices(node: ast.expr | None) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_choices(node.body), *_choices(node.orelse)]
    return [str(node.value)] if isinstance(node, ast.Constant) and _is_code(node) else []


def _chosen_codes(tree: ast.Module) -> dict[str, list[str]]:
    """Return local names that functions set to codes."""
    inside = [node for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef) for node in ast.walk(outer)]
    pairs = [(node.targets[0], node.value) for node in inside if isinstance(node, ast.Assign)]
    return {target.id: _choices(value) for target, value in pairs if isinstance(target, ast.Name) and _choices(value)}


def _is_code(node: ast.Constant) -> bool:
    return isinstance(node.value, str) and _CODE.fullmatch(node.value) is not None


def _account(call: ast.Call, classes: Classes, path: Path) -> tuple[str, str, int | None]:
    """Return the message of a call, its remedy, and the exit code it leads to."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    texts = [_text(argument) for argument in call.args if not _choices(argument)]
    says = next((text for text in texts if text.replace(_OPEN, "").strip()), "")
    words = {word.arg: word.value for word in call.keywords}
    do = _text(words.get("do"))
    if name == "Failure":
        exit_code = _named_exit(classes, call.args[2])
    elif name in classes and _exit_of(classes, name) is not None:
        exit_code = _exit_of(classes, name)
    elif name in ("error", "Problem", "problem", "refuse"):
        # A problem of a report: raised as a damaged store by the manifest and as bad data elsewhere.
        exit_code = _exit_of(classes, "CorruptStoreError" if path.stem == "manifest" else "DataError")
    else:
        exit_code = None
    return says, do, exit_code


def _named_exit(classes: Classes, node: ast.expr) -> int | None:
    """Return ``ExitCode.DATA`` as a number."""
    if not isinstance(node, ast.Attribute):
        return None
    value = _attribute(classes, "ExitCode", node.attr)
    return int(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


def _exit_of(classes: Classes, name: str) -> int | None:
    value = _attribute(classes, name, "exit_code")
    if isinstance(value, ast.Constant) and isinstance(value.value, int):
        return value.value
    return None if value is None else _named_exit(classes, value)


def _attribute(classes: Classes, name: str, attribute: str, inherited: bool = True) -> ast.expr | None:
    """Return the value that a class, or one of its bases, assigns to an attribute in its body."""
    if name not in classes:
        return None
    for node in classes[name].body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == attribute for t in node.targets):
            return node.value
    bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)] if inherited else []
    return next((value for base in bases if (value := _attribute(classes, base, attribute)) is not None), None)


def _text(node: ast.expr | None) -> str:
    """Return a string as it is written, with ``…`` for values that are filled in at run time."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else _OPEN for part in node.values)
        return re.sub(rf"{_OPEN}(?:\s*{_OPEN})+", _OPEN, text)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return _text(node.body) or _text(node.orelse)
    if isinstance(node, ast.BoolOp):
        return next((text for text in map(_text, node.values) if text), "")
    return _OPEN if node is not None else ""


def _cell(texts: list[str]) -> str:
    shown = [text.replace("|", r"\|").replace("\n", " ").replace("<", "&lt;") for text in texts[:_MOST]]
    return "<br>".join([*shown, *([f"and {len(texts) - _MOST} more"] if len(texts) > _MOST else [])])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(errors_page(), "utf-8")
