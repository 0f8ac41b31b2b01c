"""The fitted forecasts of extra variables of a run: one sealed file beside its checkpoints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.variables import EXTRA_VARIABLES
from fields.windows import Climatology, Stations
from stationpde.errors import CorruptArtefactError, UsageError
from stationpde.extras.forecasts import ExtraForecast, ExtraForecasts
from stationpde.extras.predictors import OWN, SHARED
from stationpde.runs import read_sealed, write_sealed
from stationpde.uncertainty import LEVELS

if TYPE_CHECKING:
    from stationpde.runs import LoadedRun

__all__ = ["EXTRAS", "extras_of", "write_extras"]

Array = np.ndarray[Any, Any]

EXTRAS = "extras.json"
"""File of the fitted forecasts in a run directory."""
_FORMAT = 1
_DIGITS = 7


def write_extras(extras: ExtraForecasts, run: Path) -> Path:
    """Write fitted forecasts into their run, whole or not at all."""
    path, places = run / EXTRAS, extras.stations
    content = {
        "format": _FORMAT,
        "facts": dict(extras.facts),
        "stations": {"id": list(places.id), **{n: getattr(places, n).tolist() for n in ("lat", "lon", "alt")}},
        "fitted": [_to_dict(one) for one in extras.fitted.values()],
    }
    write_sealed(path, content)
    return path


def extras_of(run: LoadedRun) -> ExtraForecasts | None:
    """Read the fitted forecasts of a run; None where there are none, or those of another checkpoint.

    Raises
    ------
    CorruptArtefactError
        If they are damaged, or of another run.
    """
    path = run.path / EXTRAS
    if not run.model.config.data.extra or not path.exists():
        return None
    remedy = f"stationpde calibrate {shlex.quote(str(run.path))} --obs STORE"
    try:
        extras = _from_dict(read_sealed(path))
    except CorruptArtefactError as problem:
        problem.do = remedy
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, UsageError) as problem:
        raise CorruptArtefactError(
            f"{EXTRAS} holds what no fit writes: {problem}", code="SPDE-T123", where=str(path), do=remedy
        ) from None
    for key in ("config_hash", "seed", "data_fingerprint"):
        here, there = run.record.get(key), extras.facts.get(key)
        if here is not None and there is not None and here != there:
            raise CorruptArtefactError(
                f"{EXTRAS} is of another run: its {key.replace('_', ' ')} is not that of run.json",
                code="SPDE-T123", where=str(path), do=remedy,
            )  # fmt: skip
    if extras.stations.id != run.model.statistics.stations.id:
        raise CorruptArtefactError(f"{EXTRAS} is of other stations than the checkpoint", code="SPDE-T123",
                                   where=str(path), do=remedy)  # fmt: skip
    return extras if extras.facts.get("checkpoint") == run.checkpoint else None


def _to_dict(one: ExtraForecast) -> dict[str, Any]:
    climate = one.climatology
    tables = {"table": climate.table, "waves": climate.waves, "weights": one.weights, "centres": one.centres,
              "curves": one.curves}  # fmt: skip
    return {
        "name": one.name,
        "spread": one.spread,
        "facts": dict(one.facts),
        "slots": [climate.slot_seconds, climate.origin, climate.annual, int(climate.daily)],
        **{name: {"shape": list(table.shape), "values": _plain(table)} for name, table in tables.items()},
    }


def _plain(table: Array) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in table.ravel().tolist()]


def _from_dict(content: Mapping[str, Any]) -> ExtraForecasts:
    """Read what `write_extras` writes; ValueError, KeyError or TypeError for anything else."""
    if content["format"] != _FORMAT:
        raise ValueError(f"its format is {content['format']!r}, this version reads {_FORMAT}")
    places = content["stations"]
    stations = Stations(
        tuple(map(str, places["id"])), *(np.array(places[n], np.float64) for n in ("lat", "lon", "alt"))
    )
    fitted = [_forecast(part, len(stations)) for part in content["fitted"]]
    return ExtraForecasts(stations, {one.name: one for one in fitted}, dict(content["facts"]))


def _forecast(part: Mapping[str, Any], stations: int) -> ExtraForecast:
    name, spread = str(part["name"]), float(part["spread"])
    slot_seconds, origin, annual, daily = (int(number) for number in part["slots"])
    table, waves, weights, centres, curves = (
        np.array(part[key]["values"], np.float64).reshape(part[key]["shape"])
        for key in ("table", "waves", "weights", "centres", "curves")
    )
    days, bins = centres.shape
    odd = (
        name not in EXTRA_VARIABLES
        or not spread > 0.0
        or slot_seconds < 1
        or table.shape != (1, 86400 // slot_seconds, stations, 1)
        or waves.shape != (2 * annual, stations, 1)
        or weights.ndim != 2
        or weights.shape[1] != SHARED + OWN
        or curves.shape != (days, bins, len(LEVELS))
        or days < 1
        or not all(np.isfinite(values).all() for values in (table, waves, weights, centres, curves))
        or (np.diff(centres, axis=1) < 0).any()
        or (np.diff(curves, axis=2) < 0).any()
    )
    if odd:
        raise ValueError(f"what is fitted for {name[:40]!r} has a shape or number that no fit has")
    climatology = Climatology(
        table.astype(np.float32), waves.astype(np.float32), slot_seconds, origin, annual, bool(daily)
    )
    return ExtraForecast(name, climatology, spread, weights, centres, curves, dict(part["facts"]))
