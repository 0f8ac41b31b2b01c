"""``python -m benchmarks.assimilation NAME``: hourly analyses of a station network by 4D-Var, at stations withheld.

A fifth of the stations of a region is withheld. From the others, every hour, four analyses of wind and temperature are
made and compared at the withheld ones: ``idw`` and ``detrended`` (the lifts of that hour), ``persisted`` (the
``detrended`` lift of the hour before), and ``4dvar``: wind, mixing, and forces and a heating that are sought carry the
analysis of the hour before for an hour, corrected so that it meets the stations of the hour. Withheld stations enter
none of them. Temperature is carried as reduced to sea level by 6.5 K/km.

Every hour is written to ``out/assimilation/NAME.json`` at once; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import pde_ops as po
from fields.atomic import write_file
from fields.grid import GridSpec
from fields.lift import LiftSettings, StationLift
from pde_ops.assimilation import Coefficient, FourDVar, Gaussian, Places, Points, Source, State
from pde_ops.integrators import Integrator
from pde_ops.ops import advection_upwind3, laplacian

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
LAPSE = 6.5e-3  # K/m, standard atmosphere
VARIABLES = {"u": "m/s", "v": "m/s", "t": "K"}
# South, north, west, east: dense parts of both networks.
REGIONS = {"metar_1993": (28.0, 42.0, -100.0, -80.0), "metar_conus": (33.0, 43.0, -100.0, -85.0)}
ERRORS = {"u": "1.5 m/s", "v": "1.5 m/s", "t": "1 K"}  # of stations: instrument, and a point against a cell of 35 km
LENGTH = "120 km"

u, v, T = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("t", "K")
Fu, Fv, Q = po.Closure("Fu", "m/s**2"), po.Closure("Fv", "m/s**2"), po.Closure("Q", "K/s")
kappa = po.Positive("kappa", "km**2/hour", init=50.0)

EQUATIONS = po.PDESystem("carried wind and warmth", {
    u: kappa * laplacian(u) - advection_upwind3(u, u, v) + Fu,
    v: kappa * laplacian(v) - advection_upwind3(v, u, v) + Fv,
    T: kappa * laplacian(T) - advection_upwind3(T, u, v) + Q,
})  # fmt: skip


@dataclass(frozen=True)
class Network:
    """Values of the stations of a region, SI, NaN = missing, and the hours since the row before."""

    lat: np.ndarray
    lon: np.ndarray
    alt: np.ndarray
    values: dict[str, np.ndarray]
    is_withheld: np.ndarray
    since: np.ndarray


def read(name: str, hours: int, seed: int) -> Network:
    """Read a network from the folder of real data beside the checkout."""
    shared = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))
    with np.load(shared / "data" / name / "observations.npz", allow_pickle=False) as file:
        arrays = {key: file[key] for key in ("obs", "variables", "time", "lat", "lon", "alt_m")}
    south, north, west, east = REGIONS[name]
    inside = (arrays["lat"] > south) & (arrays["lat"] < north) & (arrays["lon"] > west) & (arrays["lon"] < east)
    inside &= np.isfinite(arrays["alt_m"])
    names = [str(variable) for variable in arrays["variables"]]
    values = {n: arrays["obs"][:, inside, names.index(n)].astype(np.float64) for n in VARIABLES}
    values["t"] = values["t"] + (273.15 if np.nanmedian(values["t"]) < 150.0 else 0.0)
    reporting = np.isfinite(np.stack(list(values.values()))).any((0, 1))
    lat, lon, alt = (arrays[key][inside][reporting].astype(np.float64) for key in ("lat", "lon", "alt_m"))
    withheld = np.random.default_rng(seed).random(lat.size) < 0.2
    since = np.diff(arrays["time"][:hours], prepend=arrays["time"][0]) // np.timedelta64(1, "h")
    chosen = {n: array[:hours, reporting] for n, array in values.items()}  # the stations are those of the whole record
    return Network(lat, lon, alt, chosen, withheld, since)


def lifted(network: Network, method: str, targets: tuple[Any, Any, Any], hour: int) -> dict[str, np.ndarray]:
    """Return the lift of one hour from the stations that are not withheld."""
    chosen = ~network.is_withheld
    stations = (network.lat[chosen], network.lon[chosen], network.alt[chosen])
    lift = StationLift.between(stations, targets, LiftSettings(method))
    return dict(lift({n: array[hour, chosen] for n, array in network.values.items()}).values)


class Cycle:
    """Analyses by 4D-Var, each from the one before."""

    def __init__(self, network: Network, name: str, rows: int) -> None:
        south, north, west, east = REGIONS[name]
        self.network = network
        self.spec = GridSpec.around([south, north], [west, east], height=rows)
        self.grid = po.Grid2D.from_latlon(self.spec.lat, self.spec.lon)
        self.step: Integrator = po.integrators["ssprk3"](
            EQUATIONS.compile(self.grid, backend="auto").double(), dt=600.0
        )
        self.all_places = Places.from_degrees(self.spec.lat, self.spec.lon, network.lat, network.lon)

    def first(self) -> Tensor:
        """Return the lift of the first hour, at sea level."""
        lat, lon = self.spec.cells()
        first = lifted(self.network, "detrended", (lat, lon, np.zeros_like(lat)), 0)
        maps = [np.asarray(first[n]).reshape(self.spec.shape) for n in VARIABLES]
        return torch.as_tensor(np.stack(maps), dtype=torch.float64)[None]

    def advance(self, state: Tensor, hour: int) -> tuple[Tensor, dict[str, float]]:
        """Return the state of an hour from that of the hour before, and how the minimisation went.

        In an hour without any report the state is carried on.
        """
        since = int(self.network.since[hour])
        observed = self._observed(hour, since)
        if not observed:
            still = {name: torch.zeros(1, *self.spec.shape, dtype=torch.float64) for name in ("Fu", "Fv", "Q")}
            with torch.no_grad():
                return po.integrate(self.step, state, round(since * 3600.0 / self.step.dt), still), {}
        one = {"u": Gaussian("1.5 m/s", LENGTH), "v": Gaussian("1.5 m/s", LENGTH), "t": Gaussian("1 K", LENGTH)}
        trends = [Source(n, Gaussian("1.5 m/s/hour", LENGTH)) for n in ("Fu", "Fv")]
        problem = FourDVar(
            self.step, state, window=f"{since} hours", observations=observed,
            controls=[State(one), *trends, Source("Q", Gaussian("1.5 K/hour", "250 km")), Coefficient("kappa", 2.0)],
        )  # fmt: skip
        estimate = problem.solve(precision=0.5)  # half a deviation, over thousands of unknowns together
        how = {"iterations": estimate.descent.iterations, "consistency": round(estimate.consistency, 3)}
        return estimate.trajectory(keep=problem.window.steps)[-1], how

    def at_withheld(self, state: Tensor) -> dict[str, np.ndarray]:
        """Return the analysis at the stations withheld, temperature at their altitude."""
        chosen = self.network.is_withheld
        places = Places(self.all_places.rows[chosen], self.all_places.columns[chosen])
        sampled = _sample(state, places, self.grid)
        values = dict(zip(VARIABLES, sampled, strict=True))
        return {**values, "t": values["t"] - LAPSE * self.network.alt[chosen]}

    def _observed(self, hour: int, since: int) -> list[Points]:
        sets, network = [], self.network
        for name, unit in VARIABLES.items():
            values = network.values[name][hour] + (LAPSE * network.alt if name == "t" else 0.0)
            used = ~network.is_withheld & np.isfinite(values)
            if used.any():
                places = Places(self.all_places.rows[used], self.all_places.columns[used])
                at = f"{since} hours"
                sets.append(Points(name, places, time=at, values=(values[used], unit), error=ERRORS[name]))
        return sets


def _sample(state: Tensor, places: Places, grid: po.Grid2D) -> np.ndarray:
    from pde_ops.integrators.interpolation import interpolate

    points = torch.as_tensor(places.tensor())[None, :, None]
    return np.asarray(interpolate(state, points, grid.boundary)[0, :, 0])


def measure(name: str, hours: int, rows: int, seed: int, out: Path) -> dict[str, Any]:
    """Analyse hour by hour and return squared errors by hour, resuming from what is written."""
    began = time.process_time()
    network = read(name, hours + 1, seed)
    settings = {"network": name, "rows": rows, "seed": seed}
    record: dict[str, Any] = {"settings": settings, "hours": {}, "cpu_seconds": 0.0}
    states = out.with_suffix(".state.npy")
    cycle = Cycle(network, name, rows)
    state = cycle.first()
    if out.exists() and states.exists():
        before = json.loads(out.read_text(encoding="utf-8"))
        if before["settings"] == settings:
            record, state = before, torch.as_tensor(np.load(states, allow_pickle=False))
    chosen, spent = network.is_withheld, record["cpu_seconds"]
    targets = (network.lat[chosen], network.lon[chosen], network.alt[chosen])
    total = min(hours, len(network.values["u"]) - 1)
    for hour in range(len(record["hours"]) + 1, total + 1):
        state, how = cycle.advance(state, hour)
        analyses = {
            "idw": lifted(network, "idw", targets, hour),
            "detrended": lifted(network, "detrended", targets, hour),
            "persisted": lifted(network, "detrended", targets, hour - 1),
            "4dvar": cycle.at_withheld(state),
        }
        errors: dict[str, Any] = {}
        for variable in VARIABLES:
            misses = {m: np.asarray(a[variable]) - network.values[variable][hour, chosen] for m, a in analyses.items()}
            counted = np.isfinite(np.stack(list(misses.values()))).all(0)  # the same stations for all
            errors[variable] = {m: [float((e[counted] ** 2).sum()), int(counted.sum())] for m, e in misses.items()}
        record["hours"][str(hour)] = {**how, "errors": errors}
        record["cpu_seconds"] = round(spent + time.process_time() - began, 1)
        write_file(states, _as_bytes(state))
        write_file(out, (json.dumps(record) + "\n").encode())
    return record


def _as_bytes(state: Tensor) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    np.save(buffer, state.numpy(), allow_pickle=False)
    return buffer.getvalue()


def table(record: dict[str, Any]) -> str:
    """Return root mean square errors at the stations withheld, as Markdown."""
    hours = list(record["hours"].values())
    methods = list(hours[0]["errors"]["u"])
    lines = [f"| variable | unit | {' | '.join(methods)} | values |", "|---" * (len(methods) + 3) + "|"]
    for variable, unit in VARIABLES.items():
        sums = {m: np.sum([h["errors"][variable][m] for h in hours], axis=0) for m in methods}
        errors = [f"{np.sqrt(total / count):.3f}" for total, count in sums.values()]
        lines.append(f"| {variable} | {unit} | {' | '.join(errors)} | {int(sums[methods[0]][1])} |")
    observed = [h for h in hours if "iterations" in h]
    iterations = np.mean([h["iterations"] for h in observed])
    consistency = np.mean([h["consistency"] for h in observed])
    lines.append(
        f"\n{len(hours)} hours, {len(observed)} of them with reports, {iterations:.0f} iterations each, "
        f"2J/observations {consistency:.2f}, {record['cpu_seconds']:.0f} s of CPU"
    )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assimilation", description=__doc__)
    parser.add_argument("name", choices=REGIONS)
    parser.add_argument("--hours", type=int, default=10, help="to analyse; a week of metar_conus is 168")
    parser.add_argument("--rows", type=int, default=32, help="of the grid")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of stations withheld")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "assimilation", help="folder of the figures")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    options.out.mkdir(parents=True, exist_ok=True)
    record = measure(options.name, options.hours, options.rows, options.seed, options.out / f"{options.name}.json")
    print(table(record))


if __name__ == "__main__":
    main()
