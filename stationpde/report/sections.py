"""Static sections of the page: tables and text, every text from data escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from fields.errors import printable
from fields.variables import VARIABLES
from stationpde.data import describe_quality
from stationpde.evaluation import CLIMATOLOGY, compare, scores_by, squared_unit
from stationpde.physics import STATE
from stationpde.plots import coefficient_label
from stationpde.report.content import CHANNEL_TITLES, model_title, unit_of
from stationpde.report.view import OURS

if TYPE_CHECKING:
    from fields.store import DataCard
    from stationpde.evaluation import ErrorStatistics
    from stationpde.forecasting import Audit
    from stationpde.report.view import RunData, RunScores, RunView

__all__ = ["sections", "text"]


def text(value: object) -> str:
    """Escape a text for HTML: markup and control characters are shown, never interpreted."""
    return escape(printable(value), quote=True)


def sections(view: RunView, content: dict[str, Any]) -> list[str]:
    """Build the sections in order; those without anything to show are left out."""
    listed = []
    if "frames" in content:
        listed.append(_map(bool(view.moment is not None and view.moment.bands), "chances" in content))
    if view.scored is not None:
        listed += [_scores(view.scored, view.data), _altitude()]
        if view.extras:
            listed.append(_extras(view.extras))
        if view.uncertainty is not None:
            listed.append(_uncertainty(view.uncertainty))
        if view.scored.router is not None:
            listed.append(_router(view.scored.router))
    if shares := _shares(view):
        listed.append(shares)
    listed.append(_physics(view))
    if view.moment is not None:
        listed.append(_audit(view.moment.audit))
    if view.data is not None and view.data.card is not None:
        listed.append(_card(view.data.card))
    if "training" in content:
        listed.append(_training(content))
    listed.append(_provenance(view))
    return listed


def _section(title: str, *parts: str, name: str = "") -> str:
    return f"<section{f' id={name!r}' if name else ''}>\n<h2>{title}</h2>\n" + "\n".join(parts) + "\n</section>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 1) -> str:
    """Build a table of ready HTML cells; from column ``numbers`` on they are numbers."""
    kinds = ["" if n < numbers else ' class="number"' for n in range(len(heads))]
    head = "".join(f"<th{kind}>{cell}</th>" for kind, cell in zip(kinds, heads))
    body = "".join(
        "<tr>" + "".join(cell if cell.startswith("<td") else f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row))
        + "</tr>"
        for row in rows
    )  # fmt: skip
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(f'<tr><th>{name}</th><td class="text">{value}</td></tr>' for name, value in rows)
    return f'<div class="scroll"><table><tbody>{body}</tbody></table></div>'


def _map(has_bands: bool, has_cells: bool) -> str:
    return _section(
        "Forecast",
        '<div class="columns"><div>',
        '<div class="controls"><label>Show <select id="variable"></select></label>'
        '<label>as <select id="layer"><option value="forecast">forecast</option>'
        '<option value="truth">lifted observations</option><option value="difference">forecast − observed</option>'
        + (
            '<option value="spread">width of the interval of 80 %</option><option value="above">chance above</option>'
            "</select></label>"
            '<label id="limits" hidden><input type="number" id="limit" step="any" aria-label="threshold">'
            '<span id="limit-unit"></span></label></div>'
            if has_cells
            else "</select></label></div>"
        ),
        '<div id="map"><canvas id="canvas" aria-label="map"></canvas>'
        '<svg id="stations" aria-label="stations"></svg></div>',
        '<div class="legend"><span id="low"></span><i id="ramp"></i><span id="high"></span></div>',
        '<div class="time"><button type="button" id="play">Play</button>'
        '<input type="range" id="time" min="0" max="0" step="1" value="0" aria-label="time"></div>',
        '<p id="when" aria-live="polite"></p>',
        '<p class="hint">Dots are stations, filled with what they observed at that time. Touch one for its series. '
        "The field is that of the grid's cells, at their altitude.</p>",
        "</div><div>",
        '<div class="controls"><label>Station <select id="station"></select></label></div>',
        '<h3 id="station-name"></h3><p class="hint" id="station-place"></p>',
        '<div class="keys"><span><b class="dot"></b>observed</span><span><b style="background:var(--c0)"></b>forecast'
        "</span></div>",
        '<div id="series"></div><p class="hint">Hours since the forecast was issued.'
        + (" The bands hold 50, 80 and 90 of 100 cases." if has_bands else "")
        + "</p>",
        "</div></div>",
        name="forecast",
    )


def _uncertainty(result: Mapping[str, Any]) -> str:
    mine, climate = result["scores"]["run"], result["scores"].get(CLIMATOLOGY, {})
    rows = [
        [text(VARIABLES[name].long_name), f"{one['crps']:.4g} {text(unit_of(name, difference=True))}",
         *(f"{100 * one['coverage'][level]:.1f} %" for level in ("0.5", "0.8", "0.9")),
         f"{one['width']['0.8']:.3g}",
         f"{100 * (1 - one['crps'] / climate[name]['crps']):.0f} %" if name in climate else ""]
        for name, one in mine.items()
    ]  # fmt: skip
    heads = ["variable", "CRPS", "in the 50 % interval", "80 %", "90 %", "width of 80 %", "CRPS below climatology"]
    return _section(
        "Uncertainty",
        '<h3>Coverage by lead [%]</h3><div class="keys"><span><b style="background:var(--c0)"></b>90 %</span>'
        '<span><b style="background:var(--c2)"></b>80 %</span><span><b style="background:var(--c3)"></b>50 %</span>'
        '<span>dashed: what it is to be</span></div><div class="charts" id="coverage"></div>',
        '<h3>PIT</h3><p class="hint">Share of the targets in each tenth of their distributions, 1 where it is as it is '
        'to be. High ends: too narrow. A high middle: too wide.</p><div class="charts" id="pit"></div>',
        '<h3>Reliability</h3><p class="hint">How often an event happened against how probable it was said to be, %.</p>'
        '<div class="charts" id="reliability"></div>',
        _table(heads, rows),
        name="uncertainty",
    )  # fmt: skip


def _scores(scored: RunScores, data: RunData | None) -> str:
    keys = "".join(
        f'<span><b style="background:var(--c{n % 6})"></b>{text(model_title(name))}</span>'
        for n, name in enumerate(scored.statistics)
    )
    days = len(scored.statistics[OURS].day[0])
    hint = (
        f"{scored.windows:,} test windows over {days} days. MSE in physical units, the lowest in bold; skill is "
        "1 − MSE / MSE of persistence. A star: the difference to StationPDE is significant at 5 % in a block bootstrap "
        "over days and in the test of Diebold and Mariano."
    )
    if data is not None:
        hint = f"{hint} {describe_quality(data.quality).capitalize()}."
    return _section(
        "Errors",
        f'<div class="keys">{keys}</div><div class="charts" id="errors"></div>',
        score_table(scored.statistics),
        f'<p class="hint">{hint}</p>',
    )  # fmt: skip


def score_table(scores: Mapping[str, ErrorStatistics]) -> str:
    """Build the table of scores, variable × model, with skill and stars of significance."""
    ours = scores[OURS]
    each = {name: scores_by(sums.total, sums.variables) for name, sums in scores.items()}
    stars = {name: compare(ours, sums) for name, sums in scores.items() if name != OURS}
    rows = []
    for variable in ours.variables:
        best = min(by_variable[variable].mse for by_variable in each.values())
        cells = [f"{text(VARIABLES[variable].long_name)} [{squared_unit(unit_of(variable, difference=True))}]"]
        for name, by_variable in each.items():
            mse = by_variable[variable].mse
            star = "*" if name != OURS and stars[name][variable].is_significant else ""
            cells.append(f'<td class="number{" best" if mse == best else ""}">{mse:.3g}{star}</td>')
        if "persistence" in each:
            cells.append(f"{1.0 - each[OURS][variable].mse / each['persistence'][variable].mse:.2f}")
        rows.append(cells)
    heads = ["MSE", *(text(model_title(name)) for name in each), *(["skill"] if "persistence" in each else [])]
    return _table(heads, rows)


def _extras(scores: Mapping[str, Any]) -> str:
    """Build the table of variables beside the state: errors, and what they gain on each reference."""
    references = [name for name in next(iter(scores.values())) if name not in ("run", "coverage")]
    rows = []
    for name, entry in scores.items():
        covered = entry["coverage"].get("0.8")
        rows.append([
            f"{text(VARIABLES[name].long_name)} [{squared_unit(unit_of(name, difference=True))}]",
            f"{entry['run']['mse']:.3g}", *(f"{entry[one]['skill']:.2f}" for one in references),
            "" if covered is None else f"{covered:.0%}",
        ])  # fmt: skip
    heads = ["MSE", "StationPDE", *(f"skill against {text(model_title(one).lower())}" for one in references),
             "cases within the interval of 80 %"]  # fmt: skip
    return _section(
        "Beside the state",
        _table(heads, rows),
        '<p class="hint">Variables that do not enter the equations, forecast at the stations alone.</p>',
        name="extras",
    )


def _altitude() -> str:
    return _section(
        "Errors and altitude",
        '<div class="charts" id="altitudes"></div>',
        '<p class="hint">A dot for each station.</p>',
    )


def _router(weights: Any) -> str:
    mean = weights.mean(axis=0)
    bars = "".join(
        f'<span>{CHANNEL_TITLES[name]}</span><div class="bar"><span style="width:{100 * (1 - share):.1f}%">'
        f"{1 - share:.2f}</span><em>{share:.2f}</em></div>"
        for name, share in zip(STATE, mean)
    )
    keys = "".join(
        f'<span><b style="background:var(--c{n})"></b>{CHANNEL_TITLES[name]}</span>' for n, name in enumerate(STATE)
    )
    return _section(
        "Who carries the forecast",
        '<div class="keys"><span><b style="background:var(--physics)"></b>equations</span>'
        '<span><b style="background:var(--data)"></b>data-driven</span></div>'
        f'<div class="bars">{bars}</div>',
        '<p class="hint">Mean weights of the two branches over grid, leads and test windows. '
        "Below: weight of the data-driven branch by lead.</p>",
        f'<div class="keys">{keys}</div><div id="router"></div>',
    )


def _shares(view: RunView) -> str:
    """Build the table of shares, variable × member: the mean over leads, and those of the first and the last."""
    from stationpde.model import shares_of

    mixed = shares_of(view.run.model)
    if mixed is None:
        return ""
    first, last = mixed.values[:, 0], mixed.values[:, -1]
    rows = [
        [text(VARIABLES[name].long_name)]
        + [f"{share:.2f} ({first[row, channel]:.2f} – {last[row, channel]:.2f})"
           for row, share in enumerate(by_member.values())]
        for channel, (name, by_member) in enumerate(mixed.by_variable.items())
    ]  # fmt: skip
    hours = f"{mixed.lead_hours[0]:g} and {mixed.lead_hours[-1]:g} h"
    return _section(
        "What the forecast at a station is made of", _table(["share", *map(text, mixed.members)], rows),
        f'<p class="hint">Mean over all leads, in brackets at {hours}. {text(mixed.about())} Maps show the field '
        "with the differences at the stations lifted into it.</p>",
        name="shares",
    )  # fmt: skip


def _physics(view: RunView) -> str:
    from stationpde.model import coefficients_of

    coefficients = coefficients_of(view.run.model)
    if not coefficients:
        return _section("Learned physics", '<p class="hint">This model has no physical branch.</p>')
    rows = [
        [_symbol(name), f"<code>{text(name)}</code>", f'<td class="number">{c.value:.4g}</td>',
         f"<td>{text(c.unit) if c.unit != '1' else ''}</td>"]
        for name, c in coefficients.items()
    ]  # fmt: skip
    rule = view.run.model.config.pde.rule
    caution = (
        "" if rule in ("none", "limiter")
        else f" Under the scale rule “{text(rule)}” they are no physical rates: steps are scaled before they are taken."
    )  # fmt: skip
    if any(name.startswith("force_") for name in coefficients):
        caution += (
            " λ with the name of a term, and force, are of the residual in the loss: the coefficient of the term that "
            "the observations support, and the size of what no term describes."
        )
    return _section(
        "Learned physics", _table(["", "name", "value", "unit"], rows, numbers=2),
        '<p class="hint">κ mixes, r<sub>m</sub> is friction, λ<sub>c</sub> condensation; γ are factors of an update, '
        f"1 where the equations are taken as they stand.{caution}</p>",
    )  # fmt: skip


def _symbol(name: str) -> str:
    """Format a coefficient as HTML: κ with the subscript θ."""
    symbol, _, below = coefficient_label(name).replace("_", " ").partition(" ")
    return f"{text(symbol)}<sub>{text(below)}</sub>" if below else text(symbol)


def _audit(audit: Audit) -> str:
    rows = [tuple(text(part) for part in line.split(None, 1)) for line in audit.lines()]
    named = [("Courant number", text(audit.lines()[0].removeprefix("Courant number").strip())), *rows[1:]]
    named.append(("finite", "every number" if audit.finite else "no"))
    return _section("Physics audit", '<p class="hint">Of the forecast shown above.</p>', _facts(named))  # type: ignore[arg-type]


def _card(card: DataCard) -> str:
    facts = [
        ("record", text(card.title or card.source)),
        ("stations", f"{card.stations:,}, typically {card.spacing_km:.0f} km apart"),
        ("altitude", f"{card.altitude[0]:.0f} to {card.altitude[2]:.0f} m, median {card.altitude[1]:.0f} m"),
        ("times", f"{card.times:,} from {text(card.first)} to {text(card.last)} UTC"),
        ("pressure", text(card.pressure_kind)),
    ]
    if card.worst_stations:
        worst = ", ".join(f"{text(name)} {share:.0%}" for name, share in card.worst_stations)
        facts.append(("gaps", f"{card.complete_stations:,} stations lack less than 5 %; most gaps: {worst}"))
    rows = [
        [f"{text(v.long_name)} [{text(v.unit.replace('degC', '°C'))}]", f"{v.missing:.1%}", f"{v.flagged:.2%}",
         *(f"{x:.1f}" for x in (v.low, v.p01, v.median, v.p99, v.high))]
        for v in card.variables
    ]  # fmt: skip
    heads = ["", "missing", "flagged", "lowest", "1 %", "median", "99 %", "highest"]
    return _section("Data card", _facts(facts), _table(heads, rows))


def _training(content: dict[str, Any]) -> str:
    lines = content["training"]["validation"]["lines"]
    keys = "".join(
        f'<span><b style="background:var(--c{n % 6})"></b>{text(VARIABLES[line["name"]].long_name)}</span>'
        for n, line in enumerate(lines)
    )
    return _section(
        "Training", '<div class="charts"><div><h3>Loss</h3><div id="loss"></div></div>'
        '<div><h3>Validation: MSE / MSE of persistence</h3><div id="validation"></div></div></div>',
        f'<div class="keys">{keys}</div>',
    )  # fmt: skip


def _provenance(view: RunView) -> str:
    from stationpde.report.provenance import provenance

    facts = [(text(name), f"<code>{text(value)}</code>") for name, value in provenance(view).items()]
    config = text(view.run.model.config.to_toml()).replace("\\n", "\n")
    return _section(
        "Where it comes from", _facts(facts), f"<details><summary>Configuration</summary><pre>{config}</pre></details>"
    )
