"""The same five-field forward step written for Devito, a stencil language without gradients.

Devito is timed as it stands: its raw kernel (the time its own profiler reports) and its Python call. No border is
applied, which favours it: the halo holds what the edge cells held at the start.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from pde_ops.benchmarking.eager_step import HEAT_POWER, LATENT_POWER, Geometry
from pde_ops.benchmarking.problem import FIELDS, Problem
from pde_ops.constants import T_triple, e_s0, epsilon, kappa, p0

__all__ = ["prepare"]


def prepare(problem: Problem) -> dict[str, Any]:
    """Build the operator and return ``step`` (a call), ``raw`` (seconds of the last kernel) and ``result``."""
    import devito as dv

    dv.configuration["log-level"] = "ERROR"
    dv.configuration["language"] = "C"
    batch, _, ny, nx = problem.state.shape
    grid = dv.Grid(shape=(ny, nx), dtype=np.float32)
    y, x = grid.dimensions
    # The batch is an outer dimension without neighbours.
    b = dv.DefaultDimension(name="b", default_value=batch)
    space = {"dimensions": (b, y, x), "shape": (batch, ny, nx), "space_order": 2, "grid": grid}
    now = {name: dv.Function(name=name, **space) for name in FIELDS}
    new = {name: dv.Function(name=f"{name}_new", **space) for name in FIELDS}
    closures = {name: dv.Function(name=name, **space) for name in problem.closures}
    rows = {name: dv.Function(name=name, dimensions=(y,), shape=(ny,), grid=grid) for name in ("rx", "f", "kn", "ks")}
    for k, name in enumerate(FIELDS):
        values = problem.state[:, k].numpy()
        now[name].data_with_halo[:] = np.pad(values, [(0, 0), *_halo(now[name], ny, nx)], mode="edge")
    for name, value in problem.closures.items():
        closures[name].data[:] = value.numpy()
    rows["rx"].data[:] = 1.0 / problem.grid.dx
    rows["f"].data[:] = problem.grid.f
    at = Geometry.of(problem.grid, torch.float32)
    rows["kn"].data[:], rows["ks"].data[:] = at.north[:, 0].numpy(), at.south[:, 0].numpy()
    scalars = {s: dv.Constant(name=s, dtype=np.float32, value=float(value)) for s, value in _scalars(problem).items()}
    equations = _equations(dv, (y, x), now, new, closures, rows, scalars, problem)
    operator = dv.Operator(equations, name="surface_step")
    seconds = {"raw": 0.0}

    def step() -> None:
        summary = operator.apply()
        seconds["raw"] = sum(entry.time for entry in summary.values())

    def result() -> np.ndarray:
        return np.stack([np.asarray(new[name].data) for name in FIELDS], axis=1)

    started = time.perf_counter()
    step()
    return {"step": step, "raw": lambda: seconds["raw"], "result": result, "build": time.perf_counter() - started}


def _halo(function: Any, ny: int, nx: int) -> list[tuple[int, int]]:
    shape = function.data_with_halo.shape[1:]
    return [((total - inner) // 2, total - inner - (total - inner) // 2) for total, inner in zip(shape, (ny, nx))]


def _scalars(problem: Problem) -> dict[str, float]:
    return {
        **{f"kappa_{name}": problem.coefficients[f"kappa_{name}"] for name in FIELDS},
        "r_m": problem.coefficients["r_m"],
        "lambda_c": problem.coefficients["lambda_c"],
        "dt": problem.dt,
        "ry": 1.0 / problem.grid.dy,
    }


def _equations(dv: Any, axes: Any, now: Any, new: Any, closures: Any, rows: Any, c: Any, problem: Problem) -> list[Any]:
    y, x = axes
    u, v, p, theta, q = (now[name] for name in FIELDS)
    rx, f, ry = rows["rx"], rows["f"], c["ry"]

    def shifted(a: Any, axis: Any, by: int) -> Any:
        return a.subs(axis, axis + by * axis.spacing)

    def transport(a: Any) -> Any:
        east, west = shifted(a, x, 1), shifted(a, x, -1)
        north, south = shifted(a, y, 1), shifted(a, y, -1)
        advection = (dv.Max(u, 0) * (a - west) + dv.Min(u, 0) * (east - a)) * rx
        advection += (dv.Max(v, 0) * (a - south) + dv.Min(v, 0) * (north - a)) * ry
        laplacian = (east - 2 * a + west) * rx * rx + (north - a) * rows["kn"] - (a - south) * rows["ks"]
        return c[f"kappa_{a.name}"] * laplacian - advection

    # Logarithms go to scalars of their own: sympy would fold exp(k·log p) into two slow powers.
    log_p, temperature, log_x, e_s, q_s = (
        dv.types.Symbol(name=n, dtype=np.float32) for n in ("lp", "T", "lx", "es", "qs")
    )
    ratio = float(T_triple) / temperature
    exponent = float(LATENT_POWER + HEAT_POWER) * (1 - ratio) + float(HEAT_POWER) * log_x
    everywhere = u.dimensions
    moisture = [
        dv.Eq(log_p, dv.log(p * (1.0 / float(p0))), implicit_dims=everywhere),
        dv.Eq(temperature, theta * dv.exp(float(kappa) * log_p), implicit_dims=everywhere),
        dv.Eq(log_x, dv.log(ratio), implicit_dims=everywhere),
        dv.Eq(e_s, float(e_s0) * dv.exp(exponent), implicit_dims=everywhere),
        dv.Eq(q_s, float(epsilon) * e_s / (p - (1 - float(epsilon)) * e_s), implicit_dims=everywhere),
    ]
    tendencies = {
        "u": transport(u) + f * v - c["r_m"] * u,
        "v": transport(v) - f * u - c["r_m"] * v,
        "p": transport(p) + closures["S_p"],
        "theta": transport(theta) + closures["S_theta"],
        "q": transport(q) + closures["S_q"] - c["lambda_c"] * dv.Max(q - q_s, 0),
    }
    return [*moisture, *(dv.Eq(new[name], now[name] + c["dt"] * rate) for name, rate in tendencies.items())]
