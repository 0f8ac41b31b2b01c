"""Cells of distributions: one model, dressed in one way, as a small file; cells of point scores are others.

The file holds the sums from which every score follows, so that tables, groups and significance need no forecast again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields import atomic
from stationpde.errors import CorruptArtefactError
from stationpde.evaluation.cells import commit, versions
from stationpde.evaluation.contestants import Task, contestant
from stationpde.evaluation.distribution_sums import ROWS, DistributionSums

if TYPE_CHECKING:
    from stationpde.data import WindowSource

__all__ = ["UncertaintyCell", "cell_path", "pooled", "read_uncertainty_cell", "settings_of", "write_uncertainty_cell"]

Array = np.ndarray[Any, Any]

_KIND, _SCHEMA = "uncertainty cell", 1
# Part of what a cell is recognised by: raised when a way to dress forecasts changes its numbers.
_RECIPE = 1
_MOST_BYTES = 16 << 20
_GROUPS = ("lead", "station", "hour")
_PARTS = ("inside", "energy", "events", "reliability")


@dataclass(frozen=True, slots=True, eq=False)
class UncertaintyCell:
    """Scores of the distributions of one model, dressed in one way, under one protocol and from one seed.

    Attributes
    ----------
    settings : hash of everything that decides the numbers, by which a finished cell is recognised
    about : title, data, training, versions, altitude of the stations, and their distance to the nearest that reports
    sums : of the scores
    """

    task: Task
    dressing: str
    settings: str
    about: Mapping[str, Any]
    sums: DistributionSums


def settings_of(task: Task, dressing: str, fingerprint: str) -> str:
    """Return the hash of everything that decides the numbers of a cell."""
    about = {"of": contestant(task.model).settings(task, fingerprint), "dressing": dressing, "recipe": _RECIPE}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def cell_path(folder: Path, task: Task, dressing: str) -> Path:
    """Return the file of a cell."""
    return folder / f"{task.name}-{dressing}.json"


def write_uncertainty_cell(folder: Path, cell: UncertaintyCell) -> Path:
    """Write a cell completely or not at all."""
    path, sums = cell_path(folder, cell.task, cell.dressing), cell.sums
    arrays = {
        **{f"total_{group}": sums.total[group] for group in _GROUPS},
        "daily": sums.daily["lead"].sum(axis=2),
        **{name: getattr(sums, name) for name in _PARTS},
    }
    content = {
        "kind": _KIND, "schema_version": _SCHEMA, "task": cell.task.to_dict(), "dressing": cell.dressing,
        "settings": cell.settings, "about": {**cell.about, "versions": versions(), "commit": commit()},
        "names": list(sums.names), "stations": list(sums.stations), "horizon": len(sums.lead_hours),
        "step_seconds": sums.step_seconds, "first_day": int(sums.first_day),
    }  # fmt: skip
    head = json.dumps(content, indent=1, allow_nan=False)
    lines = ",\n".join(
        f'  "{name}": {json.dumps({"shape": array.shape, "values": _numbers(array)}, separators=(",", ":"))}'
        for name, array in arrays.items()
    )
    with atomic.machine_faults(path):
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_file(path, f'{head[:-2]},\n "sums": {{\n{lines}\n }}\n}}\n'.encode())
    return path


def read_uncertainty_cell(path: Path) -> UncertaintyCell:
    """Read a cell that `write_uncertainty_cell` wrote.

    Raises
    ------
    CorruptArtefactError
        If the file is no such cell.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("too large")
        content = json.loads(atomic.read_regular(path))
        if content["kind"] != _KIND or content["schema_version"] != _SCHEMA:
            raise ValueError("it is of another kind")
        task = content["task"]
        arrays = {
            name: np.array(part["values"], np.float64).reshape(part["shape"]) for name, part in content["sums"].items()
        }
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("it holds what is no number")
        days = int(arrays["daily"].shape[1])
        first = int(content["first_day"])
        sums = DistributionSums(
            [str(name) for name in content["stations"]], content["names"], int(content["horizon"]),
            int(content["step_seconds"]), (first, first + days - 1), np.full((3, len(content["stations"])), np.nan),
        )  # fmt: skip
        for group in _GROUPS:
            _put(sums.total, group, arrays[f"total_{group}"])
        for name in _PARTS:
            if getattr(sums, name).shape != arrays[name].shape:
                raise ValueError(f"`{name}` has another shape")
            setattr(sums, name, arrays[name])
        sums.daily = {"lead": arrays["daily"][:, :, None]}
        about = dict(content["about"])
        task = Task(**{**task, "overrides": tuple(task["overrides"])})
        return UncertaintyCell(task, str(content["dressing"]), str(content["settings"]), about, sums)
    except (
        OSError,
        atomic.NotRegularFileError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as problem:
        raise CorruptArtefactError(
            f"{path.name} is no finished cell of distributions: {problem}", code="SPDE-B012", where=str(path),
            do="remove it: the same command computes it again",
        ) from None  # fmt: skip


def pooled(cells: Sequence[UncertaintyCell]) -> DistributionSums:
    """Return the sums of all seeds of one model: its scores are their means."""
    first = cells[0].sums
    whole = DistributionSums(
        first.stations, first.names, len(first.lead_hours), first.step_seconds,
        (first.first_day, first.first_day + first.inside.shape[1] - 1), first.thresholds,
    )  # fmt: skip
    for group in _GROUPS:
        whole.total[group] = np.sum([cell.sums.total[group] for cell in cells], axis=0)
    for name in _PARTS:
        setattr(whole, name, np.sum([getattr(cell.sums, name) for cell in cells], axis=0))
    whole.daily = {"lead": np.sum([cell.sums.daily["lead"].sum(axis=2) for cell in cells], axis=0)[:, :, None]}
    # A day of several seeds is one day: counts are those of one.
    whole.daily["lead"] /= len(cells)
    whole.inside /= len(cells)
    whole.energy /= len(cells)
    return whole


def places_of(source: WindowSource, reporting: WindowSource | None) -> dict[str, Any]:
    """Return altitude and, where other stations report, the distance of each station to the nearest of these in km."""
    stations = source.series.stations
    about: dict[str, Any] = {"altitude_m": [None if not np.isfinite(x) else round(float(x), 1) for x in stations.alt]}
    if reporting is not None:
        from fields.grid import LocalMetric

        network = reporting.series.stations
        metric = LocalMetric.around(network.lat, network.lon)
        gap = metric.xy(stations.lat, stations.lon)[:, None] - metric.xy(network.lat, network.lon)[None]
        about["distance_km"] = [round(float(x) / 1e3, 2) for x in np.hypot(gap[..., 0], gap[..., 1]).min(axis=1)]
    return about


def _put(total: dict[str, Array], group: str, values: Array) -> None:
    if values.shape != total[group].shape or values.shape[0] != ROWS:
        raise ValueError(f"its sums by {group} have another shape")
    total[group] = values


def _numbers(array: Array) -> list[float | int]:
    """Return numbers to seven digits, whole ones without a point."""
    return [int(x) if x == int(x) else float(f"{x:.7g}") for x in array.ravel().tolist()]
