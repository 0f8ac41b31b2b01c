# ruff: noqa: F821, F841  (GTScript is parsed, not run: its words are not names, its outputs are assigned)
"""The same five-field forward step written for GT4Py, a stencil language without gradients.

Longitude runs along I, latitude along J and the batch along K. Fields carry a halo of one cell that holds what the
edge cells held at the start; no border is applied, which favours GT4Py.
"""

import contextlib
import tempfile
import time
from typing import Any

import numpy as np
import torch

from pde_ops.benchmarking.eager_step import HEAT_POWER, LATENT_POWER, Geometry
from pde_ops.benchmarking.problem import FIELDS, Problem
from pde_ops.constants import T_triple, e_s0, epsilon, kappa, p0

__all__ = ["BACKENDS", "prepare"]

BACKENDS = ("gt:cpu_ifirst", "gt:cpu_kfirst")
NUMBERS = {
    "KAPPA": float(kappa), "INVERSE_P0": 1.0 / float(p0), "T0": float(T_triple), "ES0": float(e_s0),
    "EPS": float(epsilon), "REST": 1.0 - float(epsilon), "HEAT": float(HEAT_POWER),
    "BOTH": float(HEAT_POWER + LATENT_POWER),
}  # fmt: skip


def prepare(problem: Problem, backend: str = "gt:cpu_ifirst") -> dict[str, Any]:
    """Build the stencil and return ``step`` (a call), ``raw`` (seconds of the last kernel) and ``result``."""
    started = time.perf_counter()
    # It writes its cache and builds in the working directory, where a project file would mislead its build.
    with tempfile.TemporaryDirectory(prefix="gt4py-") as folder, contextlib.chdir(folder):
        from gt4py import storage
        from gt4py.cartesian import config, gtscript

        config.cache_settings["root_path"] = folder
        stencil = _stencil(gtscript, backend)
    batch, _, ny, nx = problem.state.shape

    def field(values: np.ndarray) -> Any:
        wide = np.pad(values, [(0, 0), (1, 1), (1, 1)], mode="edge")
        return storage.from_array(
            wide.transpose(2, 1, 0).astype(np.float32), dtype=np.float32, backend=backend, aligned_index=(1, 1, 0)
        )

    def rows(values: np.ndarray) -> Any:
        wide = np.pad(values, 1, mode="edge").astype(np.float32)
        return storage.from_array(wide, dtype=np.float32, backend=backend, dimensions="J", aligned_index=(1,))

    arrays = {name: field(problem.state[:, k].numpy()) for k, name in enumerate(FIELDS)}
    arrays |= {f"{name}_new": field(problem.state[:, k].numpy()) for k, name in enumerate(FIELDS)}
    arrays |= {name: field(value.numpy()) for name, value in problem.closures.items()}
    at = Geometry.of(problem.grid, torch.float32)
    weights = {"kn": at.north[:, 0].numpy(), "ks": at.south[:, 0].numpy()}
    lines = {"rx": 1.0 / problem.grid.dx, "f": problem.grid.f, **weights}
    arrays |= {name: rows(values) for name, values in lines.items()}
    scalars = {name: np.float32(value) for name, value in problem.coefficients.items()}
    scalars |= {"dt": np.float32(problem.dt), "ry": np.float32(1.0 / problem.grid.dy)}
    seconds: dict[str, Any] = {}

    def step() -> None:
        stencil(
            **arrays, **scalars, origin={"_all_": (1, 1, 0), **dict.fromkeys(lines, (1,))}, domain=(nx, ny, batch),
            exec_info=seconds, validate_args=False,
        )  # fmt: skip

    def raw() -> float:
        return float(seconds["run_cpp_end_time"] - seconds["run_cpp_start_time"])

    def result() -> np.ndarray:
        inner = (slice(1, -1), slice(1, -1), slice(None))
        return np.stack([np.asarray(arrays[f"{name}_new"])[inner].transpose(2, 1, 0) for name in FIELDS], axis=1)

    step()
    return {"step": step, "raw": raw, "result": result, "build": time.perf_counter() - started}


def _stencil(gtscript: Any, backend: str) -> Any:
    Plane = gtscript.Field[np.float32]
    Rows = gtscript.Field[gtscript.J, np.float32]

    @gtscript.function
    def transport(a, u, v, rx, ry, kn, ks, kap):
        along_x = (max(u, 0.0) * (a - a[-1, 0, 0]) + min(u, 0.0) * (a[1, 0, 0] - a)) * rx
        along_y = (max(v, 0.0) * (a - a[0, -1, 0]) + min(v, 0.0) * (a[0, 1, 0] - a)) * ry
        curved = (a[1, 0, 0] - 2.0 * a + a[-1, 0, 0]) * rx * rx + (a[0, 1, 0] - a) * kn - (a - a[0, -1, 0]) * ks
        return kap * curved - along_x - along_y

    def surface_step(
        u: Plane, v: Plane, p: Plane, theta: Plane, q: Plane,
        u_new: Plane, v_new: Plane, p_new: Plane, theta_new: Plane, q_new: Plane,
        S_p: Plane, S_theta: Plane, S_q: Plane, rx: Rows, f: Rows, kn: Rows, ks: Rows,
        kappa_u: np.float32, kappa_v: np.float32, kappa_p: np.float32, kappa_theta: np.float32, kappa_q: np.float32,
        r_m: np.float32, lambda_c: np.float32, dt: np.float32, ry: np.float32,
    ):  # fmt: skip
        from __externals__ import BOTH, EPS, ES0, HEAT, INVERSE_P0, KAPPA, REST, T0

        with computation(PARALLEL), interval(...):
            ratio = T0 / (theta * exp(KAPPA * log(p * INVERSE_P0)))
            e_s = ES0 * exp(BOTH * (1.0 - ratio) + HEAT * log(ratio))
            q_s = EPS * e_s / (p - REST * e_s)
            u_new = u + dt * (transport(u, u, v, rx, ry, kn, ks, kappa_u) + f * v - r_m * u)
            v_new = v + dt * (transport(v, u, v, rx, ry, kn, ks, kappa_v) - f * u - r_m * v)
            p_new = p + dt * (transport(p, u, v, rx, ry, kn, ks, kappa_p) + S_p)
            theta_new = theta + dt * (transport(theta, u, v, rx, ry, kn, ks, kappa_theta) + S_theta)
            q_new = q + dt * (transport(q, u, v, rx, ry, kn, ks, kappa_q) + S_q - lambda_c * max(q - q_s, 0.0))

    externals = {**NUMBERS, "transport": transport}
    return gtscript.stencil(
        backend=backend,
        definition=surface_step,
        externals=externals,
        dtypes={},
        literal_float_precision=32,
        extra_opt_flags="-march=native -ffast-math",
    )
