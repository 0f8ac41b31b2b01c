"""Results as Markdown: models down (any number fits a page), variables across, best bold, second underlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from stationpde.data import describe_quality
from stationpde.evaluation.contestants import contestant
from stationpde.evaluation.error_groups import better_stations, error_groups, rival
from stationpde.evaluation.protocols import protocol
from stationpde.evaluation.results import HorizonResults, Results

__all__ = ["LONG_NAMES", "grid", "markdown", "provenance", "shown_number"]

_READING = "**Best**, <u>second</u>. With ±: mean and standard deviation over seeds; without: one run."
_GROUP_NAMES = {"lead": "lead {}", "hour": "valid at {}", "elevation": "altitude {}", "days": "{} days"}
LONG_NAMES = {"u": "u-wind", "v": "v-wind", "p": "pressure", "t": "temperature", "rh": "humidity"}


def markdown(results: Results, pictures: Mapping[int, str] = MappingProxyType({})) -> str:
    """Write all tables of a benchmark with their explanations; ``pictures`` are links by horizon."""
    if not results.horizons:
        return "No cell is finished.\n"
    unseen = " at stations left out of training" if "kept" in results.data else ""
    parts = [f"## {results.protocol}: {_hours(results)} ahead{unseen}", provenance(results)]
    parts += ["### MSE", _table(results, "mse"), _READING]
    parts += [f"![Root mean square error by lead, {hours} h ahead]({link})" for hours, link in pictures.items()]
    parts += ["### MAE", _table(results, "mae"), _READING]
    parts += ["### Significance of differences", *(_comparison(horizon, results) for horizon in results.horizons)]
    parts += [
        "### Error by lead, hour, altitude and weather",
        *(_error_groups(horizon, results) for horizon in results.horizons),
    ]
    parts += ["### Training", _training(results), *_remarks(results)]
    return "\n\n".join(parts) + "\n"


def shown_number(value: float | None) -> str:
    """Write a number with four significant digits, trailing zeros included."""
    if value is None or value != value:
        return "–"
    return f"{value:#.4g}" if abs(value) < 999.95 else f"{value:.0f}"


def _hours(results: Results) -> str:
    return ", ".join(f"{horizon.hours} h" for horizon in results.horizons)


def provenance(results: Results) -> str:
    """Write protocol, data, split, seeds, recipe, versions and command as a small table."""
    data = results.data
    split = "; ".join(f"{name} {first[:10]} to {last[:10]}" for name, (first, last) in data["split"].items())
    windows = ", ".join(f"{count:,} {name}" for name, count in data["windows"].items())
    seeds = sorted({seed for horizon in results.horizons for seed in horizon.seeds})
    versions = next(iter(results.horizons[0].cells.values()))[0].about["versions"]
    commits = sorted({str(c.about.get("commit")) for h in results.horizons for cs in h.cells.values() for c in cs})
    minutes = "none" if results.cap is None else f"{results.cap / 60:.3g} CPU-minutes"
    cap = minutes if results.cap is None else f"{minutes} for each learned model, search included"
    left = f" left out of {data['stations'] + data['kept']}" if "kept" in data else ""
    rows = {
        "protocol": f"{results.protocol}: {protocol(results.protocol).title}",
        "data": f"{data['name']}, {data['stations']} stations{left}, every {data['step_seconds'] / 3600:g} h, "
        f"fingerprint {data['fingerprint'][:12]}; {describe_quality(results.quality)}",
        "split": f"{split} ({windows} windows)",
        "seeds": ", ".join(map(str, seeds)) or "none needed",
        "recipe": f"{results.recipe}; cap {cap}",
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "commit": ", ".join(commits),
        "command": f"`{results.command}`",
    }
    lines = [f"| {name} | {text} |" for name, text in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines])


def _ordered(results: Results) -> list[str]:
    """Order models: StationPDE first, then the others from best to worst by nMSE at their first horizon."""
    first = {model: horizon for horizon in reversed(results.horizons) for model in horizon.cells}
    ours = {model for model, horizon in first.items() if horizon.cells[model][0].about["model_kind"] == "ours"}
    return sorted(first, key=lambda model: (model not in ours, first[model].nmse(model)))


def _table(results: Results, key: str) -> str:
    variables = results.horizons[0].variables
    several = len(results.horizons) > 1
    pooled = {horizon.hours: {model: horizon.pooled(model) for model in horizon.cells} for horizon in results.horizons}
    units = results.units() if key == "mse" else results.units(squared=False)
    head = ["model", *(["h"] if several else []), *(f"{LONG_NAMES[name]} ({units[name]})" for name in variables)]
    columns = {
        horizon.hours: [
            _marked({m: entries[name] for m, entries in pooled[horizon.hours].items()}, key) for name in variables
        ]
        for horizon in results.horizons
    }
    if key == "mse":
        head.append("nMSE")
        for horizon in results.horizons:
            columns[horizon.hours].append(
                _marked({m: {"mse": horizon.nmse(m), "seeds": 1} for m in horizon.cells}, "mse")
            )
    rows = []
    for model in _ordered(results):
        for horizon in results.horizons:
            if model in horizon.cells:
                label = [_title(results, model), *([str(horizon.hours)] if several else [])]
                rows.append([*label, *(column[model] for column in columns[horizon.hours])])
    return grid(head, rows)


def _marked(values: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, str]:
    """Write the entries of a column by model: least bold, second least underlined, with the spread over seeds."""
    order = sorted(values, key=lambda model: values[model][key])
    marks: dict[str, Callable[[str], str]] = {}
    if len(order) > 1:
        marks = {order[0]: lambda text: f"**{text}**", order[1]: lambda text: f"<u>{text}</u>"}
    cells = {}
    for model, entry in values.items():
        text = marks.get(model, str)(shown_number(entry[key]))
        cells[model] = f"{text} ± {entry.get(f'{key}_std', 0.0):.2g}" if entry["seeds"] > 1 else text
    return cells


def _comparison(horizon: HorizonResults, results: Results) -> str:
    """Write how much lower the MSE of the subject is than each other's, with intervals and both tests."""
    subject = horizon.subject
    rows = []
    compared = horizon.comparisons()
    for model in (name for name in _ordered(results) if name in compared):
        by_variable, cells = compared[model], []
        for c in by_variable.values():
            span = "" if c.low is None or c.high is None else f" ({100 * c.low:+.1f} to {100 * c.high:+.1f})"
            cells.append(f"{100 * c.gain:+.1f} %{span}{'' if c.is_significant else ' n.s.'}")
        rows.append([_title(results, model), *cells])
    note = (
        f"How much lower the MSE of {_title(results, subject)} is at {horizon.hours} h, with the 95 % interval of a "
        "block bootstrap over weeks of issue days; *n.s.*: not significant at 5 % by it and by Diebold and Mariano."
    )
    if not rows:
        return f"Only one model was run at {horizon.hours} h: there is nothing to compare."
    return f"{note}\n\n{grid(['against', *(LONG_NAMES[name] for name in horizon.variables)], rows)}"


def _error_groups(horizon: HorizonResults, results: Results) -> str:
    """Write the errors of the subject by group, with how much lower they are than those of the best other model."""
    other = rival(horizon)
    names = [LONG_NAMES[name] for name in horizon.variables]
    rows = []
    for group in error_groups(horizon, np.asarray(results.data["altitude_m"])):
        gains = {v: "" if other is None else f" ({100 * g:+.1f} %)" for v, g in group.gain.items()}
        cells = [f"{shown_number(group.mse[v])}{gains[v]}" for v in horizon.variables]
        rows.append([_GROUP_NAMES[group.by].format(group.label), *cells])
    subject = _title(results, horizon.subject)
    note = f"MSE of {subject} at {horizon.hours} h"
    if other is not None:
        note += f", in brackets how much lower it is than that of {_title(results, other)}"
    note += ". Days are parted by how much pressure changes until the forecast ends."
    table = f"{note}\n\n{grid(['group', *names], rows)}"
    ahead = ", ".join(f"{LONG_NAMES[v]} {n} of {of}" for v, (n, of) in better_stations(horizon).items())
    return f"{table}\n\nStations at which {subject} has the lower MSE: {ahead}." if ahead else table


def _training(results: Results) -> str:
    rows = []
    facts = results.model_facts()
    for about in (facts[model] for model in _ordered(results)):
        for hours, entry in about["horizons"].items():
            flat, epochs = entry["flattened"], entry["epochs"]
            rows.append([
                about["title"], hours, f"{entry['cpu_seconds']:,.1f}", str(len(entry["seeds"]) or "–"),
                f"{sum(epochs) / len(epochs):.1f}" if epochs else "–",
                "–" if not flat else "yes" if all(flat) else "no" if not any(flat) else f"{sum(flat)} of {len(flat)}",
                "–" if entry["parameters"] is None else f"{entry['parameters']:,}",
                "; ".join(dict.fromkeys(", ".join(f"{k} {v}" for k, v in c.items()) for c in entry["chosen"])) or "–",
            ])  # fmt: skip
    head = ["model", "h", "CPU s", "seeds", "epochs", "curve flat", "parameters", "chosen on validation"]
    return grid(head, rows)


def _remarks(results: Results) -> list[str]:
    remarks = []
    for horizon in results.horizons:
        for model in horizon.cells:
            margins = horizon.margins(model) if horizon.cells[model][0].about["model_kind"] == "ours" else {}
            for label, about in margins.items():
                gains = ", ".join(f"{v} {100 * g:+.1f} %" for v, g in about["gain"].items())
                against = "the best single peer of each variable" if label == "best_single_peer" else label
                remarks.append(
                    f"{_title(results, model)} against {against} at {horizon.hours} h: {gains}; "
                    f"mean {100 * about['mean']:+.2f} %."
                )
    remarks += [f"Not run: {name}{_missing(results, name)} ({why})." for name, why in results.skipped.items()]
    remarks += [f"Failed: {name} ({why})." for name, why in results.failed.items()]
    if results.stale:
        remarks.append(f"From other settings than the present ones: {', '.join(results.stale)}.")
    if results.unfinished:
        remarks.append(f"{results.unfinished} cells are not finished; the same command resumes.")
    return remarks


def _missing(results: Results, model: str) -> str:
    """Write the horizons without cells of a model that has some."""
    missing = [f"{horizon.hours} h" for horizon in results.horizons if model not in horizon.cells]
    return f" at {', '.join(missing)}" if len(missing) < len(results.horizons) else ""


def _title(results: Results, model: str) -> str:
    for horizon in results.horizons:
        if model in horizon.cells:
            cells = horizon.cells[model]
            title = str(cells[0].about["title"])
            if results.cap is None or cells[0].task.cap is not None or not contestant(model).learns:
                return title
            minutes = sum(float(cell.about["training"]["cpu_seconds"]) for cell in cells) / len(cells) / 60
            return f"{title}; no cap, {minutes:.0f} CPU-minutes"
    return model


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
