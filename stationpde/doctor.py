"""What is installed, what this machine offers, and whether the fused backend really works here."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, entry_points, packages_distributions, version
from typing import Any

import stationpde

__all__ = ["Diagnosis", "Problem", "diagnose"]

_PACKAGES = (
    "torch", "numpy", "pint", "metpy", "numba", "sympy", "scipy", "xarray", "zarr", "dask", "pyarrow", "netCDF4",
    "pydantic", "safetensors", "matplotlib", "typer", "rich",
)  # fmt: skip
# Relative, float32: what the parity tests of the fused backend hold it to.
TOLERANCE = 1e-5
_OUR_NAMES = ("stationpde", "pde_ops", "fields", "cli")
_GROUPS = ("pde_ops.operators", "pde_ops.integrators", "pde_ops.backends")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that will not work here, and what to do about it."""

    what: str
    do: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Facts by section, and the problems among them."""

    sections: Mapping[str, Mapping[str, Any]]
    problems: Sequence[Problem]

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as plain values."""
        return {**self.sections, "problems": [asdict(problem) for problem in self.problems]}


def diagnose() -> Diagnosis:
    """Examine the installation and the machine, and build and run one small fused kernel."""
    problems: list[Problem] = []
    sections = {
        "versions": _versions(problems),
        "machine": _machine(),
        "fused": _fused(problems),
        "backend auto": _automatic(),
        "kernels": _kernels(),
        "plugins": _plugins(problems),
    }
    _names(problems)
    return Diagnosis(sections, problems)


def _versions(problems: list[Problem]) -> dict[str, str | None]:
    versions: dict[str, str | None] = {"stationpde": stationpde.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
            problems.append(Problem(f"{name} is not installed", f"pip install {name}"))
    return versions


def _machine() -> dict[str, Any]:
    import torch

    return {
        "platform": platform.platform(),
        "executable": sys.executable,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _kernels() -> dict[str, Any]:
    from pde_ops.backends.fused.build import find_compiler
    from pde_ops.backends.fused.cache import cache_directory

    compiler, cache = find_compiler(), cache_directory()
    sizes = [path.stat().st_size for path in cache.iterdir() if path.is_file()]
    return {
        "compiler": None if compiler is None else f"{' '.join(compiler.command)}, {compiler.version}",
        "cache": str(cache),
        "kept": f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB",
    }


def _automatic() -> dict[str, str]:
    """Say which backend `auto` takes on which device, and why."""
    from pde_ops.backends.auto import preference
    from pde_ops.backends.triton.availability import installed

    chosen = {}
    for label, device in (("on a CPU", "cpu"), ("on a GPU", "cuda")):
        names, reason = preference(device)
        version = f" {installed()}" if names[0] == "triton" else ""
        chosen[label] = f"{names[0]}{version}, else {' and then '.join([*names[1:], 'torch'])}: {reason}"
    return chosen


def _fused(problems: list[Problem]) -> dict[str, Any]:
    import torch

    import pde_ops as po

    temperature, kappa = po.Field("T", "K"), po.Positive("kappa", "m**2/s", init=1e4)
    system = po.PDESystem("trial", {temperature: kappa * po.ops.laplacian(temperature)})
    grid = po.Grid2D.plane(6, 9, dx=1e3)
    state = torch.linspace(270.0, 300.0, 108).sin().reshape(2, 1, 6, 9)
    expected = _gradient(system.compile(grid, backend="torch"), state)
    try:
        trial = system.compile(grid, backend="fused")
        gradient = _gradient(trial, state)
    except po.BackendError as problem:
        what, do = f"the fused backend cannot run here: {problem.message}", problem.do
        problems.append(Problem(what, do or "install a C compiler, or use backend='inductor'"))
        return {"works": False}
    error = float((gradient - expected).abs().max() / expected.abs().max())
    if not error <= TOLERANCE:
        what = f"the fused backend is off by {error:.1e} from torch (allowed {TOLERANCE:g})"
        problems.append(Problem(what, "use backend='torch' and report this output"))
    return {"works": error <= TOLERANCE, "runs": trial.runner.describe(), "relative_error": error}


def _gradient(tendency: Any, state: Any) -> Any:
    """Compute the gradient of a step's energy, which both the kernel and its adjoint enter."""
    state = state.clone().requires_grad_()
    tendency.advance(state, None, dt=1.0).square().sum().backward()
    return state.grad


def _names(problems: list[Problem]) -> None:
    """Check whether another distribution ships a package of our names: the later installed replaces the other."""
    owners = packages_distributions()
    for name in _OUR_NAMES:
        others = sorted(set(owners.get(name, ())) - {"stationpde", "pde-ops"})
        if others:
            what = f"`{name}` also belongs to {' and '.join(others)}, and one of them has replaced the other's files"
            do = f"pip uninstall {' '.join(others)}, then pip install --force-reinstall --no-deps stationpde"
            problems.append(Problem(what, do))


def _plugins(problems: list[Problem]) -> dict[str, str]:
    import pde_ops
    from pde_ops.backends import backends

    registries: dict[str, Any] = {
        "pde_ops.operators": pde_ops.operators,
        "pde_ops.integrators": pde_ops.integrators,
        "pde_ops.backends": backends,
    }
    plugins = {}
    for group in _GROUPS:
        for point in entry_points(group=group):
            owner = f"{point.value} of {point.dist.name if point.dist else 'an unknown distribution'}"
            try:
                registries[group][point.name]
                plugins[point.name] = owner
            except pde_ops.errors.UnknownNameError:
                plugins[point.name] = f"{owner}: fails to load"
                what = f"plug-in '{point.name}' ({owner}) fails to load"
                problems.append(Problem(what, "update or remove it"))
    return plugins
