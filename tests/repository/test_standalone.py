"""`pde_ops` stands alone: with torch, numpy and pint and nothing else, and as a wheel of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What torch, numpy and pint themselves require, by their metadata.
ALLOWED = {
    "pde_ops", "torch", "torchgen", "functorch", "numpy", "pint",
    "filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "sympy", "typing_extensions",
    "flexcache", "flexparser", "platformdirs",
}  # fmt: skip

BLOCK = f'''
import sys
from importlib.machinery import PathFinder

ALLOWED = {sorted(ALLOWED)!r}


class OnlyAllowed(PathFinder):
    """Finds what is allowed; everything else looks as if it were not installed."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in ALLOWED or top in sys.stdlib_module_names or top.startswith("_sysconfigdata"):
            return super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = OnlyAllowed
'''

MODEL = """
import torch

import pde_ops as po
from pde_ops.ops import advection, laplacian

u, T = po.Field("u", "m/s"), po.Field("T", "K")
kappa = po.Positive("kappa", "km**2/hour", init=36.0)
system = po.PDESystem("heat", {u: kappa * laplacian(u), T: kappa * laplacian(T) - advection(T, u, u)})
grid = po.Grid2D.plane(8, 9, dx=1e4, dy=1e4, boundary="periodic")
for backend in BACKENDS:
    tendency = system.compile(grid, backend=backend)
    state = torch.rand(2, 2, 8, 9, requires_grad=True)
    tendency.advance(state, {}, dt=60.0).square().sum().backward()
    assert state.grad.isfinite().all() and state.grad.abs().sum() > 0
    print(backend)
assert system.to_markdown()
"""


def run(script: str, where: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    file = where / "script.py"
    file.write_text(script, encoding="utf-8")
    return subprocess.run([python, str(file)], cwd=where, capture_output=True, text=True, check=False)


def test_a_model_runs_with_torch_numpy_and_pint_alone(tmp_path):
    outcome = run(f"{BLOCK}\nBACKENDS = ['torch', 'fused']\n{MODEL}", tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.split() == ["torch", "fused"]


@pytest.mark.parametrize("package", ["metpy", "fields", "stationpde", "xarray"])
def test_the_block_really_blocks(package, tmp_path):
    outcome = run(f"{BLOCK}\nimport {package}", tmp_path)
    assert outcome.returncode != 0
    assert f"No module named '{package}'" in outcome.stderr


@pytest.fixture(scope="module")
def wheel_python(tmp_path_factory):
    """A Python that has the `pde-ops` wheel, and this environment's other packages but not this repository."""
    where = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "-o",
        str(where),
        "packaging/pde-ops",
    ]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    venv.create(where / "env", with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(where / "env")}))
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
        *map(str, where.glob("*.whl")),
    ]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    # A path named in a .pth file is searched last, and the .pth files inside it are not followed.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(where / "env" / "bin" / "python")


@pytest.mark.slow
def test_the_wheel_holds_the_library_and_nothing_else(wheel_python, tmp_path):
    script = "import importlib.util as u, pde_ops; print(pde_ops.__file__, u.find_spec('fields'), u.find_spec('cli'))"
    outcome = run(script, tmp_path, wheel_python)
    file, *others = outcome.stdout.split()
    assert Path(file).is_relative_to(Path(wheel_python).parents[1])
    assert others == ["None", "None"]
    assert {"py.typed", "LICENSE"} <= {p.name for p in Path(file).parent.iterdir()}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_wheel_passes_the_tests_of_the_library(wheel_python, tmp_path):
    shutil.copytree(ROOT / "tests" / "pde_ops", tmp_path / "tests" / "pde_ops")
    shutil.copytree(ROOT / "tests" / "support", tmp_path / "tests" / "support")
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "operators.md", tmp_path / "docs")  # a test compares it with the registry
    outcome = subprocess.run(
        [wheel_python, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "tests/pde_ops"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout[-5000:]
