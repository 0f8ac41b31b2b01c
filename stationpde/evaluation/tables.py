"""Results as Markdown: models down (any number fits a page), variables across, best bold, second underlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from stationpde.evaluation.protocols import protocol
from stationpde.evaluation.results import HorizonResults, Results
from stationpde.evaluation.where import better_stations, error_groups, rival

__all__ = ["LONG_NAMES", "grid", "markdown", "provenance", "shown_number"]

_READING = "**Best**, <u>second</u>. With ±: mean and standard deviation over seeds; without: one run."
_GROUP_NAMES = {"lead": "lead {}", "hour": "valid at {}", "elevation": "altitude {}", "days": "{} days"}
LONG_NAMES = {"u": "u-wind", "v": "v-wind", "p": "pressure", "t": "temperature", "rh": "humidity"}


def markdown(results: Results, pictures: Mapping[int, str] = MappingProxyType({})) -> str:
    """All tables of a benchmark, each with what it needs to be read alone; ``pictures`` are links by horizon."""
    if not results.horizons:
        return "No cell is finished.\n"
    unseen = " at stations left out of training" if "kept" in results.data else ""
    parts = [f"## {results.protocol}: {_hours(results)} ahead{unseen}", provenance(results)]
    parts += ["### MSE", _table(results, "mse"), _READING]
    parts += [f"![Root mean square error by lead, {hours} h ahead]({link})" for hours, link in pictures.items()]
    parts += ["### MAE", _table(results, "mae"), _READING]
    parts += ["### Is it real?", *(_comparison(found, results) for found in results.horizons)]
    parts += ["### Where the error is", *(_where(found, results) for found in results.horizons)]
    parts += ["### Training", _training(results), *_remarks(results)]
    return "\n\n".join(parts) + "\n"


def shown_number(value: float | None) -> str:
    """Four digits, as tables print them, the last ones too when they are zero."""
    if value is None or value != value:
        return "–"
    return f"{value:#.4g}" if abs(value) < 999.95 else f"{value:.0f}"


def _hours(results: Results) -> str:
    return ", ".join(f"{found.hours} h" for found in results.horizons)


def provenance(results: Results) -> str:
    """Protocol, data, split, seeds, recipe, versions and command, as a small table."""
    data = results.data
    split = "; ".join(f"{name} {first[:10]} to {last[:10]}" for name, (first, last) in data["split"].items())
    windows = ", ".join(f"{count:,} {name}" for name, count in data["windows"].items())
    seeds = sorted({seed for found in results.horizons for seed in found.seeds})
    versions = next(iter(results.horizons[0].cells.values()))[0].about["versions"]
    commits = sorted({str(c.about.get("commit")) for h in results.horizons for cs in h.cells.values() for c in cs})
    minutes = "none" if results.cap is None else f"{results.cap / 60:.3g} CPU-minutes"
    cap = minutes if results.cap is None else f"{minutes} for each learned model, search included"
    left = f" left out of {data['stations'] + data['kept']}" if "kept" in data else ""
    rows = {
        "protocol": f"{results.protocol}: {protocol(results.protocol).title}",
        "data": f"{data['name']}, {data['stations']} stations{left}, every {data['step_seconds'] / 3600:g} h, "
        f"fingerprint {data['fingerprint'][:12]}",
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
    """Our own models, then the others from the best on (by nMSE, at the first horizon that each was run at)."""
    first = {model: found for found in reversed(results.horizons) for model in found.cells}
    ours = {model for model, found in first.items() if found.cells[model][0].about["model_kind"] == "ours"}
    return sorted(first, key=lambda model: (model not in ours, first[model].nmse(model)))


def _table(results: Results, key: str) -> str:
    variables = results.horizons[0].variables
    several = len(results.horizons) > 1
    pooled = {found.hours: {model: found.pooled(model) for model in found.cells} for found in results.horizons}
    units = results.units() if key == "mse" else results.units(squared=False)
    head = ["model", *(["h"] if several else []), *(f"{LONG_NAMES[name]} ({units[name]})" for name in variables)]
    columns = {
        found.hours: [_marked({m: own[name] for m, own in pooled[found.hours].items()}, key) for name in variables]
        for found in results.horizons
    }
    if key == "mse":
        head.append("nMSE")
        for found in results.horizons:
            columns[found.hours].append(_marked({m: {"mse": found.nmse(m), "seeds": 1} for m in found.cells}, "mse"))
    rows = []
    for model in _ordered(results):
        for found in results.horizons:
            if model in found.cells:
                label = [_title(results, model), *([str(found.hours)] if several else [])]
                rows.append([*label, *(column[model] for column in columns[found.hours])])
    return grid(head, rows)


def _marked(values: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, str]:
    """What stands in a column by model: the least bold, the second least underlined, with the spread over seeds."""
    order = sorted(values, key=lambda model: values[model][key])
    marks: dict[str, Callable[[str], str]] = {}
    if len(order) > 1:
        marks = {order[0]: lambda text: f"**{text}**", order[1]: lambda text: f"<u>{text}</u>"}
    cells = {}
    for model, entry in values.items():
        text = marks.get(model, str)(shown_number(entry[key]))
        cells[model] = f"{text} ± {entry.get(f'{key}_std', 0.0):.2g}" if entry["seeds"] > 1 else text
    return cells


def _comparison(found: HorizonResults, results: Results) -> str:
    """How much lower the subject's MSE is than each other's, with intervals and both tests."""
    subject = found.subject
    rows = []
    compared = found.comparisons()
    for model in (name for name in _ordered(results) if name in compared):
        by_variable, cells = compared[model], []
        for c in by_variable.values():
            span = "" if c.low is None or c.high is None else f" ({100 * c.low:+.1f} to {100 * c.high:+.1f})"
            cells.append(f"{100 * c.gain:+.1f} %{span}{'' if c.is_significant else ' n.s.'}")
        rows.append([_title(results, model), *cells])
    note = (
        f"How much lower the MSE of {_title(results, subject)} is at {found.hours} h, with the 95 % interval of a "
        "block bootstrap over weeks of issue days; *n.s.*: not significant at 5 % by it and by Diebold and Mariano."
    )
    if not rows:
        return f"Only one model was run at {found.hours} h: there is nothing to compare."
    return f"{note}\n\n{grid(['against', *(LONG_NAMES[name] for name in found.variables)], rows)}"


def _where(found: HorizonResults, results: Results) -> str:
    """The subject's errors by group, with how much lower they are than those of the best other model."""
    other = rival(found)
    names = [LONG_NAMES[name] for name in found.variables]
    rows = []
    for group in error_groups(found, np.asarray(results.data["altitude_m"])):
        gains = {v: "" if other is None else f" ({100 * g:+.1f} %)" for v, g in group.gain.items()}
        cells = [f"{shown_number(group.mse[v])}{gains[v]}" for v in found.variables]
        rows.append([_GROUP_NAMES[group.by].format(group.label), *cells])
    subject = _title(results, found.subject)
    note = f"MSE of {subject} at {found.hours} h"
    if other is not None:
        note += f", in brackets how much lower it is than that of {_title(results, other)}"
    note += ". Days are parted by how much pressure changes until the forecast ends."
    table = f"{note}\n\n{grid(['where', *names], rows)}"
    ahead = ", ".join(f"{LONG_NAMES[v]} {n} of {of}" for v, (n, of) in better_stations(found).items())
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
    made = []
    for found in results.horizons:
        for model in found.cells:
            margins = found.margins(model) if found.cells[model][0].about["model_kind"] == "ours" else {}
            for label, about in margins.items():
                gains = ", ".join(f"{v} {100 * g:+.1f} %" for v, g in about["gain"].items())
                against = "the best single peer of each variable" if label == "best_single_peer" else label
                made.append(
                    f"{_title(results, model)} against {against} at {found.hours} h: {gains}; "
                    f"mean {100 * about['mean']:+.2f} %."
                )
    made += [f"Not run: {name}{_missing(results, name)} ({why})." for name, why in results.skipped.items()]
    made += [f"Failed: {name} ({why})." for name, why in results.failed.items()]
    if results.stale:
        made.append(f"From other settings than the present ones: {', '.join(results.stale)}.")
    if results.unfinished:
        made.append(f"{results.unfinished} cells are not finished; the same command goes on.")
    return made


def _missing(results: Results, model: str) -> str:
    """The horizons without cells of a model that has some."""
    gone = [f"{found.hours} h" for found in results.horizons if model not in found.cells]
    return f" at {', '.join(gone)}" if len(gone) < len(results.horizons) else ""


def _title(results: Results, model: str) -> str:
    for found in results.horizons:
        if model in found.cells:
            return str(found.cells[model][0].about["title"])
    return model


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
