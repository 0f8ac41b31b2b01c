"""Tables of distributions: CRPS, coverage and width, events and scenarios of every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fields.variables import display_unit
from stationpde.evaluation.contestants import OURS
from stationpde.evaluation.distribution_sums import COVERED, DistributionSums
from stationpde.evaluation.metrics import elevation_bands
from stationpde.evaluation.significance import compare_days
from stationpde.evaluation.tables import LONG_NAMES, shown_number
from stationpde.evaluation.uncertain import coverage_test
from stationpde.evaluation.uncertainty_cells import UncertaintyCell, pooled

__all__ = ["uncertainty_markdown", "uncertainty_results"]

Array = np.ndarray[Any, Any]

_NAMES = {**LONG_NAMES, "ff": "wind speed"}
_DISTANCES = (0.0, 50.0, 100.0, 200.0, np.inf)  # km


def uncertainty_results(
    cells: Sequence[UncertaintyCell], models: Sequence[str], *, command: str, failed: Mapping[str, str]
) -> dict[str, Any]:
    """Build scores of every model and horizon; those of several seeds are of all their forecasts together."""
    horizons: dict[str, Any] = {}
    for hours in sorted({cell.task.hours for cell in cells}):
        groups: dict[str, list[UncertaintyCell]] = {}
        for cell in cells:
            if cell.task.hours == hours:
                groups.setdefault(f"{cell.task.model} {cell.dressing}", []).append(cell)
        sums = {name: pooled(part) for name, part in groups.items()}
        mine = next((name for model in models if model.split("-")[0] in OURS for name in sums
                     if name.split()[0] == model), None)  # fmt: skip
        horizons[str(hours)] = {
            "ours": mine,
            "data": dict(next(iter(groups.values()))[0].about["data"]),
            "models": {name: _entry(name, sums[name], groups[name]) for name in sums},
            "compared": {} if mine is None else {n: _gains(sums[mine], one) for n, one in sums.items() if n != mine},
        }
    return {"horizons": horizons, "command": command, "failed": dict(failed)}


def _entry(name: str, sums: DistributionSums, cells: Sequence[UncertaintyCell]) -> dict[str, Any]:
    whole = sums.total["lead"].sum(axis=1)
    scores = {v: sums.scores(whole[:, c]) for c, v in enumerate(sums.names)}
    seeds = [seed for seed in (cell.task.seed for cell in cells) if seed is not None]
    count, total = sums.energy.sum(axis=1)
    return {
        "title": cells[0].about["title"],
        "dressing": cells[0].dressing,
        "seeds": seeds,
        "scores": {v: one for v, one in scores.items() if one is not None},
        "energy": {v: float(total[c] / count[c]) for c, v in enumerate(sums.names) if count[c]},
        "events": sums.event_scores(),
        "calibrated": {
            v: {f"{level:g}": coverage_test(sums.inside[0, :, c], sums.inside[1 + i, :, c], level)
                for i, level in enumerate(COVERED)}
            for c, v in enumerate(sums.names)
        },
        "by": {group: _grouped(sums, rows) for group, rows in _groups(sums, cells[0].about).items()},
    }  # fmt: skip


def _groups(sums: DistributionSums, about: Mapping[str, Any]) -> dict[str, dict[str, Array]]:
    """Return the sums ``[row, variable]`` of every group: leads, hours, altitudes, distances and stations."""
    step, stations = sums.step_seconds / 3600, sums.total["station"]
    altitude = np.array([np.nan if x is None else x for x in about["altitude_m"]])
    groups = {
        "lead": {f"{hours:g} h": sums.total["lead"][:, k] for k, hours in enumerate(sums.lead_hours)},
        "hour": {f"{step * k:02g} UTC": sums.total["hour"][:, k] for k in range(sums.total["hour"].shape[1])},
        "elevation": {n: stations[:, inside].sum(axis=1) for n, inside in elevation_bands(altitude).items()},
    }
    if "distance_km" in about:
        distance = np.asarray(about["distance_km"])
        bands = pairwise(_DISTANCES)
        groups["distance"] = {
            f"{low:g} km up" if high == np.inf else f"{low:g}–{high:g} km": stations[:, inside].sum(axis=1)
            for low, high in bands if (inside := (distance >= low) & (distance < high)).any()
        }  # fmt: skip
    groups["station"] = {name: stations[:, k] for k, name in enumerate(sums.stations)}
    return groups


def _grouped(sums: DistributionSums, rows: Mapping[str, Array]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for label, values in rows.items():
        scores = {v: sums.scores(values[:, c]) for c, v in enumerate(sums.names)}
        entries[label] = {
            v: {key: one[key] for key in ("count", "crps", "coverage", "width")}
            for v, one in scores.items() if one is not None
        }  # fmt: skip
    return entries


def _gains(mine: DistributionSums, other: DistributionSums) -> dict[str, Any]:
    """Return the gain in CRPS over another model with its significance, by variable; of scenarios where both have."""
    both = [name for name in mine.names if name in other.names]
    gains: dict[str, Any] = {"crps": {}, "energy": {}}
    for name in both:
        a, b = mine.names.index(name), other.names.index(name)
        gains["crps"][name] = compare_days(
            mine.daily["lead"][..., a].sum(axis=2), other.daily["lead"][..., b].sum(axis=2)
        ).to_dict()
        if other.energy[0, :, b].any() and np.array_equal(mine.energy[0, :, a], other.energy[0, :, b]):
            gains["energy"][name] = compare_days(mine.energy[..., a], other.energy[..., b]).to_dict()
    return gains


def uncertainty_markdown(results: Mapping[str, Any]) -> str:
    """Write the tables of distributions."""
    parts = []
    for hours, part in results["horizons"].items():
        data = part["data"]
        parts.append(f"## Distributions, {hours} h ahead")
        parts.append(
            f"{data['name']}, {data['stations']} stations, every {data['step_seconds'] / 3600:g} h, "
            f"{data['windows']['test']:,} test windows, fingerprint {data['fingerprint'][:12]}. `{results['command']}`"
        )
        names = next(iter(part["models"].values()))["scores"]
        parts += ["### CRPS", _crps(part, names), "### Coverage of 50, 80 and 90 %", _coverage(part, names)]
        parts += ["### Width of the interval of 80 %", _width(part, names)]
        parts += ["### Brier scores", _events(part), "### Energy scores of scenarios", _energy(part, names)]
        if part["ours"] is not None:
            parts += ["### Coverage of 80 and 90 % by group", _by_group(part, names)]
    if results["failed"]:
        parts.append("Not computed: " + "; ".join(f"{name}: {why}" for name, why in results["failed"].items()))
    return "\n\n".join(parts or ["No cell is finished."]) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _heads(names: Any) -> list[str]:
    return [f"{_NAMES[name]} [{display_unit(name, difference=True)}]" for name in names]


def _crps(part: Mapping[str, Any], names: Any) -> str:
    rows = []
    for model, entry in part["models"].items():
        cells = []
        for name in names:
            value = entry["scores"].get(name)
            test = part["compared"].get(model, {}).get("crps", {}).get(name)
            text = "–" if value is None else shown_number(value["crps"])
            if test is not None:
                text += f" ({100 * test['gain']:+.1f} %{'' if test['significant'] else ', n.s.'})"
            cells.append(text)
        rows.append([_name(model, entry), *cells])
    reading = "In brackets: by how much that of the first model is lower; n.s.: not significant."
    return f"{_table(['model', *_heads(names)], rows)}\n\n{reading}"


def _coverage(part: Mapping[str, Any], names: Any) -> str:
    rows = [
        [_name(model, entry), *(_shares(entry["scores"].get(name), ("0.5", "0.8", "0.9")) for name in names)]
        for model, entry in part["models"].items()
    ]
    return _table(["model", *(_NAMES[name] for name in names)], rows)


def _width(part: Mapping[str, Any], names: Any) -> str:
    rows = [
        [_name(model, entry), *(shown_number((entry["scores"].get(name) or {"width": {"0.8": None}})["width"]["0.8"])
                                for name in names)]
        for model, entry in part["models"].items()
    ]  # fmt: skip
    return _table(["model", *_heads(names)], rows)


def _events(part: Mapping[str, Any]) -> str:
    events = list(dict.fromkeys(event for entry in part["models"].values() for event in entry["events"]))
    rows = [
        [_name(model, entry), *(_event(entry["events"].get(event)) for event in events)]
        for model, entry in part["models"].items()
    ]
    return f"{_table(['model', *events], rows)}\n\nIn brackets: skill against the frequency of the event."


def _event(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "–"
    skill = "" if entry["skill"] is None else f" ({entry['skill']:.2f})"
    return f"{entry['brier']:.4f}{skill}"


def _energy(part: Mapping[str, Any], names: Any) -> str:
    rows = [
        [_name(model, entry), *(shown_number(entry["energy"].get(name)) for name in names)]
        for model, entry in part["models"].items() if entry["energy"]
    ]  # fmt: skip
    return _table(["model", *_heads(names)], rows)


def _by_group(part: Mapping[str, Any], names: Any) -> str:
    entry = part["models"][part["ours"]]
    rows = [
        [f"{group} {label}", *(_shares(scores.get(name), ("0.8", "0.9")) for name in names)]
        for group, labels in entry["by"].items() if group != "station"
        for label, scores in labels.items()
    ]  # fmt: skip
    return _table([_name(part["ours"], entry), *(_NAMES[name] for name in names)], rows)


def _shares(entry: Mapping[str, Any] | None, levels: Sequence[str]) -> str:
    return "–" if entry is None else " / ".join(f"{100 * entry['coverage'][level]:.1f}" for level in levels)


def _name(model: str, entry: Mapping[str, Any]) -> str:
    seeds = f", {len(entry['seeds'])} seeds" if len(entry["seeds"]) > 1 else ""
    return f"{entry['title']}, {entry['dressing']}{seeds}"
