"""Data of the report page, as JSON that a browser reads: small numbers packed, everything else plain."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.grid import unwrap_longitude
from fields.plots import degrees_label
from fields.times import format_time
from fields.variables import STATE_VARIABLES, VARIABLES, display_unit
from stationpde.physics import STATE, U, V
from stationpde.plots import rmse
from stationpde.report.view import OURS
from stationpde.runs import RunDirectory, read_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fields.windows import Stations
    from stationpde.forecasting import CellDistributions, Moment
    from stationpde.plots import Relief
    from stationpde.report.view import RunScores, RunView

__all__ = ["CHANNEL_TITLES", "content_of", "model_title", "unit_of"]

Array = np.ndarray[Any, Any]

CHANNEL_TITLES = {"u": "wind u", "v": "wind v", "p": "pressure", "theta": "temperature", "q": "humidity"}
# Frames of a map and points of a curve: more than an eye tells apart, and a page of a few hundred kilobytes.
_MOST_FRAMES, _MOST_POINTS = 49, 400
_MISSING = -32768
# Levels of the quantiles on cells, between which the page reads the chance of a threshold.
_CHANCE_LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
# Forecasts of a bin below which a frequency says little.
_FEWEST_FORECASTS = 30


def unit_of(variable: str, *, difference: bool = False) -> str:
    """Return the unit that people read, °C with its sign."""
    return display_unit(variable, difference=difference).replace("degC", "°C")


def model_title(name: str) -> str:
    """Return the title of a forecaster on the page."""
    if name == OURS:
        return "StationPDE"
    from stationpde.baselines import baseline, names

    return baseline(name).title if name in names() else name


def content_of(view: RunView) -> dict[str, Any]:
    """Build the data of everything that the page draws; parts that cannot be shown are absent."""
    content: dict[str, Any] = {}
    if view.moment is not None and view.relief is not None:
        content |= _map(view.moment, view.relief)
        content["series"] = _series(view.moment)
        if view.moment.cells is not None:
            content["chances"] = _chances(view.moment, view.moment.cells)
    if view.scored is not None and view.data is not None:
        content["errors"] = _errors(view.scored)
        content["altitude"] = _altitudes(view.scored, view.data.series.stations.alt)
        if (weights := view.scored.router) is not None:
            lead = list(view.scored.statistics[OURS].lead_hours)
            content["router"] = {"lead": lead, "channels": list(STATE), "weights": weights.round(4).tolist()}
    if view.uncertainty is not None:
        content["uncertainty"] = _uncertainty(view.uncertainty)
    if training := _training(RunDirectory(view.run.path)):
        content["training"] = training
    return content


def _map(moment: Moment, relief: Relief) -> dict[str, Any]:
    grid = relief.grid
    shown = _evenly(len(moment.fields), _MOST_FRAMES)
    fields, truth = moment.fields[shown], moment.truth[shown]
    packed: dict[str, Any] = {"forecast": {}, "truth": {}, "scale": {}}
    for name in moment.names:
        channel = STATE_VARIABLES.index(name)
        low, high = _range(
            name, fields[:, channel], truth[:, channel], moment.observed[moment.history - 1 :, :, channel]
        )
        packed["scale"][name] = [low, high]
        packed["forecast"][name] = _bytes(fields[:, channel], low, high)
        packed["truth"][name] = _bytes(truth[:, channel], low, high)
    speed = np.hypot(fields[:, U], fields[:, V])
    packed["wind"] = max(1.0, float(np.nanpercentile(speed, 90))) if np.isfinite(speed).any() else 1.0
    packed["lead"] = [0.0, *moment.lead_hours]
    packed["lead"] = [packed["lead"][n] for n in shown]
    packed["step"] = (moment.history - 1 + shown).tolist()
    packed["times"] = [format_time(moment.times[n], "minute") for n in packed["step"]]
    stations = moment.stations
    lon = unwrap_longitude(stations.lon, (grid.west + grid.east) / 2.0)
    wide = (grid.east - grid.west) * math.cos(math.radians((grid.south + grid.north) / 2.0))
    rows, columns = relief.metres.shape
    return {
        "grid": {"height": grid.height, "width": grid.width, "aspect": round(wide / (grid.north - grid.south), 4)},
        "relief": {
            "rows": rows, "columns": columns, "is_true": relief.is_true,
            "pixel": round(grid.dy * (grid.height - 1) / (rows - 1)),
            "metres": _words(np.rint(relief.metres)),
        },
        "frames": packed,
        "stations": {
            "id": list(stations.id),
            "label": _labels(stations),
            "alt": [round(float(z)) if math.isfinite(z) else None for z in stations.alt],
            "x": ((lon - grid.west) / (grid.east - grid.west)).round(5).tolist(),
            "y": ((grid.north - stations.lat) / (grid.north - grid.south)).round(5).tolist(),
            "where": [_place(a, o) for a, o in zip(stations.lat, stations.lon)],
        },
        "variables": [
            {"name": n, "title": VARIABLES[n].long_name, "unit": unit_of(n), "difference": unit_of(n, difference=True)}
            for n in moment.names
        ],
    }  # fmt: skip


def _labels(stations: Stations) -> list[str]:
    """Return what stations are called: the id, with name and WIGOS identifier where they are known."""
    names, wigos = (texts or ("",) * len(stations) for texts in (stations.name, stations.wigos))
    return [" · ".join(dict.fromkeys(filter(None, parts))) for parts in zip(stations.id, names, wigos, strict=True)]


def _series(moment: Moment) -> dict[str, Any]:
    hours = (moment.times - moment.issue_time) / 3600.0
    packed: dict[str, Any] = {
        "hours": hours.tolist(),
        "history": moment.history,
        "scale": {},
        "observed": {},
        "forecast": {},
        "bands": {},
    }
    for name in moment.names:
        channel = STATE_VARIABLES.index(name)
        observed, forecast = moment.observed[..., channel], moment.forecast[..., channel]
        band = moment.bands[name] if name in moment.bands else forecast[..., None][..., :0]
        values = np.concatenate([observed.ravel(), forecast.ravel(), band.ravel()])
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        offset, step = (low + high) / 2.0, max(high - low, 1e-6) / 65000.0
        packed["scale"][name] = [offset, step]
        for key, table in (("observed", observed), ("forecast", forecast)):
            packed[key][name] = _words((table - offset) / step)
        packed["bands"][name] = [_words((band[..., k] - offset) / step) for k in range(band.shape[-1])]
    return packed


def _chances(moment: Moment, cells: CellDistributions) -> dict[str, Any]:
    """Pack quantiles on cells for every frame of the map, from which the page reads spread and chances.

    Wind is there as its speed. The first frame is the field at issue, which has no distribution.
    """
    shown = _evenly(len(moment.fields), _MOST_FRAMES)
    ahead = shown[shown > 0] - 1
    names = [name for name in ("p", "t", "rh", "ff") if name in cells.names]
    packed: dict[str, Any] = {
        "levels": list(_CHANCE_LEVELS), "rows": cells.shape[0], "columns": cells.shape[1], "first": int(shown[0] == 0),
        "scale": {}, "quantiles": {}, "units": {name: unit_of(name) for name in names},
        "differences": {name: unit_of(name, difference=True) for name in names},
        "titles": {name: VARIABLES[name].long_name for name in names},
    }  # fmt: skip
    for name in names:
        values = np.moveaxis(cells.quantiles(name, _CHANCE_LEVELS)[ahead], -1, 1)
        low, high = float(values.min()), float(values.max())
        packed["scale"][name] = [(low + high) / 2.0, max(high - low, 1e-6) / 65000.0]
        packed["quantiles"][name] = _words((values - (low + high) / 2.0) / packed["scale"][name][1])
    return packed


def _uncertainty(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return coverage by lead, PIT and reliability of the run for the page's diagrams."""
    scores, by_lead = result["scores"]["run"], result["by"]["lead"]
    lines = [
        {
            "title": VARIABLES[name].long_name,
            "pit": [round(len(one["pit"]) * share, 4) for share in one["pit"]],
            "coverage": {
                level: [round(100 * part[name]["coverage"][level], 2) if name in part else None
                        for part in by_lead.values()]
                for level in ("0.5", "0.8", "0.9")
            },
        }
        for name, one in scores.items()
    ]  # fmt: skip
    events = [
        {
            "title": f"{VARIABLES[event.split()[0]].long_name} {event.partition(' ')[2]}",
            "parts": [[round(100 * part[key], 2) for key in ("forecast", "observed")]
                      for part in entry["reliability"] if part["count"] >= _FEWEST_FORECASTS],
        }
        for event, entry in result["events"]["run"].items()
    ]  # fmt: skip
    return {"lead": [float(label.split()[0]) for label in by_lead], "variables": lines, "events": events}


def _errors(scored: RunScores) -> dict[str, Any]:
    ours = scored.statistics[OURS]
    return {
        "lead": list(ours.lead_hours),
        "variables": [
            {"name": n, "title": VARIABLES[n].long_name, "unit": unit_of(n, difference=True)} for n in ours.variables
        ],
        "models": [
            {
                "title": model_title(name),
                "rmse": {n: _plain(rmse(sums.lead)[:, c]) for c, n in enumerate(sums.variables)},
            }
            for name, sums in scored.statistics.items()
        ],
    }


def _altitudes(scored: RunScores, altitude: Array) -> dict[str, Any]:
    ours = scored.statistics[OURS]
    each = rmse(ours.station)
    return {
        "altitude": _plain(altitude),
        "rmse": {name: _plain(each[:, c]) for c, name in enumerate(ours.variables)},
    }


def _training(run: RunDirectory) -> dict[str, Any] | None:
    """Read the loss by step, and validation errors divided by those of persistence; None before the first step."""
    steps = [r for r in read_metrics(run.metrics, "step") if r.get("total") is not None]
    if not steps:
        return None
    shown = [steps[n] for n in _evenly(len(steps), _MOST_POINTS)]
    checks = read_metrics(run.metrics, "validation")
    names = [n for n in STATE_VARIABLES if checks and n in checks[0].get("variables", {})]
    return {
        "step": [r["step"] for r in shown],
        "loss": [round(float(r["total"]), 5) for r in shown],
        "validation": {
            "step": [r["step"] for r in checks],
            "lines": [{"name": n, "y": [_ratio(r["variables"].get(n)) for r in checks]} for n in names],
        },
    }


def _ratio(score: dict[str, Any] | None) -> float | None:
    if not score or not score.get("persistence_mse") or score.get("mse") is None:
        return None
    return round(score["mse"] / score["persistence_mse"], 4)


def _evenly(many: int, most: int) -> Array:
    return np.unique(np.linspace(0, many - 1, min(many, most)).round().astype(np.int64))


def _range(name: str, *fields: Array) -> tuple[float, float]:
    values = np.concatenate([f[np.isfinite(f)].ravel() for f in fields])
    low, high = np.percentile(values, [0.2, 99.8]) if values.size else (0.0, 1.0)
    if name in ("u", "v"):
        high = max(abs(low), abs(high), 1.0)
        low = -high
    if high - low < 1e-3:
        low, high = low - 0.5, high + 0.5
    return round(float(low), 4), round(float(high), 4)


def _bytes(values: Array, low: float, high: float) -> str:
    """Pack values as bytes 1 to 255 from ``low`` to ``high``; 0 marks a missing value."""
    share = np.clip((values - low) / (high - low), 0.0, 1.0)
    return _text(np.where(np.isfinite(values), 1 + np.rint(254 * np.nan_to_num(share)), 0).astype(np.uint8))


def _words(values: Array) -> str:
    """Pack whole numbers of 16 bits; the least of them marks a missing value."""
    return _text(
        np.where(np.isfinite(values), np.clip(np.rint(np.nan_to_num(values)), -32767, 32767), _MISSING).astype("<i2")
    )


def _text(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _plain(values: Array) -> list[float | None]:
    return [round(float(x), 4) if math.isfinite(x) else None for x in values]


def _place(lat: float, lon: float) -> str:
    return f"{degrees_label(round(lat, 2), 'NS')} {degrees_label(round(lon, 2), 'EW')}"
