"""Nothing outside the tests unpickles, evaluates text, reads YAML or starts a shell: the source is read."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("pde_ops", "fields", "stationpde", "cli", "docs", "benchmarks", "packaging")
FORBIDDEN_MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "joblib",
    "cloudpickle",
    "shelve",
    "marshal",
    "yaml",
}
FORBIDDEN_CALLS = {
    "eval", "exec", "torch.load", "torch.serialization.load", "torch.hub.load", "os.system", "os.popen",
    "pandas.read_pickle", "pd.read_pickle", "subprocess.getoutput", "subprocess.getstatusoutput",
}  # fmt: skip
FORBIDDEN_ARGUMENTS = {"allow_pickle", "shell"}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in ("import_module", "__import__"):
        return [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
    return []


def violations(source: str) -> list[str]:
    """Lines that do what is forbidden, as ``line: what``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        for name in imported(node):
            if name.split(".")[0] in FORBIDDEN_MODULES or name in FORBIDDEN_CALLS:
                found.append(f"{line}: imports {name}")
        if isinstance(node, ast.Call):
            if dotted(node.func) in FORBIDDEN_CALLS:
                found.append(f"{line}: calls {dotted(node.func)}")
            for keyword in node.keywords:
                value = keyword.value
                is_off = isinstance(value, ast.Constant) and not value.value
                if keyword.arg in FORBIDDEN_ARGUMENTS and not is_off:
                    found.append(f"{line}: passes {keyword.arg}")
    return found


SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_file_does_what_is_forbidden(path):
    assert violations(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "def f():\n    from joblib import load",
        "import importlib\nimportlib.import_module('dill')",
        "import torch\nmodel = torch.load('x.pt', weights_only=True)",
        "from torch import load",
        "import numpy as np\nnp.load('x.npy', allow_pickle=True)",
        "import numpy as np\nnp.load('x.npy', allow_pickle=flag)",
        "value = eval('1 + 1')",
        "exec('x = 1')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import os\nos.system('ls')",
        "import yaml",
    ],
)
def test_a_planted_violation_is_found(planted):
    assert violations(planted)


@pytest.mark.parametrize("innocent", ["model.eval()", "run(x, shell=False)", "np.load(x, allow_pickle=False)"])
def test_what_only_looks_alike_is_left_alone(innocent):
    assert violations(innocent) == []
