"""Tables of the proving ground: how far a model is ahead of its peers, setting by setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.network_settings import NETWORKS
from stationpde.evaluation import LONG_NAMES, Comparison, HorizonResults, contestant, grid

__all__ = ["ABLATED", "Lead", "leads", "section"]

# A number and its sign stay on one line.
_PERCENT = "\N{NO-BREAK SPACE}%"
_VARIABLES = ("u", "v", "p", "t", "rh")
_SINGLE, _BLEND = "best single peer", "blend"
# Ablations of parts that a long record gains little from, and their names in tables.
_FORMER = "default:recipe_former"
_WITHOUT = {
    "default-no_last_day:recipe_former": "without the level of the last day",
    "default-no_pde:recipe_former": "without the PDE branch",
}
# What the tables of parts are made of, beside the models that are asked for.
ABLATED = (_FORMER, *_WITHOUT)


@dataclass(frozen=True, slots=True, eq=False)
class Lead:
    """How a model compares with its peers on one setting.

    Attributes
    ----------
    over : comparisons by rival and variable; of the best single peer, with that of each variable
    won, level, lost : pairs of peer and variable with a significantly lower, an equal and a higher MSE
    losses : the pairs of the last kind in words
    """

    over: Mapping[str, Mapping[str, Comparison]]
    won: int
    level: int
    lost: int
    losses: tuple[str, ...]


def leads(results: HorizonResults, subject: str) -> Lead:
    """Compare a model with every peer of a setting."""
    peers = [name for name in results.cells if contestant(name).peer is not None and name != subject]
    compared = results.comparisons(subject)
    single = [name for name in peers if not contestant(name).members]
    mse = {name: results.pooled(name) for name in single}
    over = {}
    if single:
        best = {v: min(single, key=lambda name, v=v: mse[name][v]["mse"]) for v in results.variables}  # type: ignore[misc]
        over[_SINGLE] = {v: compared[name][v] for v, name in best.items()}
    if _BLEND in peers:
        over[_BLEND] = compared[_BLEND]
    pairs = [(peer, v, compared[peer][v]) for peer in peers for v in results.variables]
    lost = [(peer, v, c) for peer, v, c in pairs if c.is_significant and c.gain < 0]
    won = sum(c.is_significant and c.gain > 0 for _, _, c in pairs)
    losses = tuple(f"{LONG_NAMES[v]} to {contestant(p).title} ({100 * c.gain:+.1f}{_PERCENT})" for p, v, c in lost)
    return Lead(over, won, len(pairs) - won - len(lost), len(lost), losses)


def section(results: Mapping[str, HorizonResults], models: Sequence[str]) -> str:
    """Write the section as Markdown: a table of settings and one of trials for each variant of StationPDE."""
    about = (
        "Parts of the shared records, cut before anything was scored on them; `w2k-like` every 3 h, `meteonet-like` "
        "hourly, 24 h ahead, one seed, nothing set by hand; flags of gross errors count. How much lower the MSE of "
        "StationPDE is than that of the best single peer (persistence, yesterday, climatology, ridge, perceptron and "
        "boosted trees with neighbours), variable by variable, and than that of the blend of ridge and perceptron; "
        "*n.s.*: not significant at 5 % by a block bootstrap over weeks of issue days and by Diebold and Mariano, or "
        "too few days to tell. *Won*, *level* and *lost* count pairs of a peer and a variable, a win or a loss being "
        "significant. A learned model has 900 CPU seconds where stations times steps are at least 150,000, fewer in "
        "proportion below, 120 at least; settings computed before that rule have 900, which none used up."
    )
    parts = ["## The same recipe on other networks", about]
    ours = [model for model in models if contestant(model).peer is None and not contestant(model).parts]
    for subject in ours:
        there = {name: one for name, one in results.items() if subject in one.cells and len(one.cells) > 1}
        if len(ours) > 1:
            parts.append(f"### {contestant(subject).title}")
        for is_trial, title in ((False, ""), (True, "Trials: parts of training periods, on which choices are made:")):
            chosen = {name: one for name, one in there.items() if NETWORKS[name].is_trial == is_trial}
            if chosen:
                parts += [*([title] if title else []), _table(chosen, subject)]
    for is_trial, title in ((False, "settings"), (True, "trials")):
        ablated = {
            name: one for name, one in results.items()
            if NETWORKS[name].is_trial == is_trial and {_FORMER, *_WITHOUT} <= set(one.cells)
        }  # fmt: skip
        if ablated:
            parts += [
                "How much lower the MSE of the former recipe (`--recipe former`) is than its own without a part, "
                f"{title} on which that was scored:"
            ]
            parts += [_ablated(ablated)]
    parts.append(_facts(results))
    return "\n\n".join(parts)


def _facts(results: Mapping[str, HorizonResults]) -> str:
    cells = [cell for one in results.values() for of_model in one.cells.values() for cell in of_model]
    commits = sorted({str(cell.about.get("commit")) for cell in cells})
    return f"`python -m benchmarks.other_networks`, commit {', '.join(commits)}."


def _table(results: Mapping[str, HorizonResults], subject: str) -> str:
    compared = {name: leads(one, subject) for name, one in results.items()}
    rows: list[list[str]] = []
    for name, lead in compared.items():
        counts = f"{lead.won} / {lead.level} / {lead.lost}"
        for number, (label, by) in enumerate(lead.over.items()):
            shown = [_shown(by[v]) if v in by else "–" for v in _VARIABLES]
            first = [_title(name, results[name], subject), counts] if number == 0 else ["", ""]
            rows.append([first[0], label, *shown, _percent([c.gain for c in by.values()]), first[1]])
    for number, label in enumerate((_SINGLE, _BLEND)):
        each = [lead.over[label] for lead in compared.values() if label in lead.over]
        if not each:
            continue
        over = [[by[v].gain for by in each if v in by] for v in _VARIABLES]
        # Each setting counts alike, whatever number of variables it has.
        mean = [sum(c.gain for c in by.values()) / len(by) for by in each]
        in_all = [sum(getattr(lead, what) for lead in compared.values()) for what in ("won", "level", "lost")]
        last = " / ".join(map(str, in_all)) if number == 0 else ""
        title = f"**mean of {len(each)}**" if number == 0 else ""
        rows.append([title, label, *(_percent(gains) if gains else "–" for gains in over), _percent(mean), last])
    head = ["setting", "against", *(LONG_NAMES[v] for v in _VARIABLES), "mean", "won / level / lost"]
    losses = [f"{NETWORKS[name].title}: {', '.join(lead.losses)}" for name, lead in compared.items() if lead.lost]
    named = f"Significant losses: {'; '.join(losses)}." if losses else "No significant loss to any peer."
    return "\n\n".join([grid(head, rows), named])


def _ablated(results: Mapping[str, HorizonResults]) -> str:
    rows: list[list[str]] = []
    each: dict[str, list[dict[str, float]]] = {label: [] for label in _WITHOUT.values()}
    for name, one in results.items():
        compared = one.comparisons(_FORMER)
        for number, (model, label) in enumerate(_WITHOUT.items()):
            by = compared[model]
            gain_of = {v: c.gain for v, c in by.items()}
            each[label].append(gain_of)
            shown = [_shown(by[v]) if v in by else "–" for v in _VARIABLES]
            title = NETWORKS[name].title if number == 0 else ""
            rows.append([title, label, *shown, _percent(list(gain_of.values()))])
    for number, (label, gains) in enumerate(each.items()):
        over = [_percent([gain[v] for gain in gains if v in gain]) for v in _VARIABLES]
        mean = _percent([sum(gain.values()) / len(gain) for gain in gains])
        rows.append(["**mean**" if number == 0 else "", label, *over, mean])
    return grid(["setting", "against", *(LONG_NAMES[v] for v in _VARIABLES), "mean"], rows)


def _title(name: str, results: HorizonResults, subject: str) -> str:
    about = results.cells[subject][0].about
    data, cpu = about["data"], about["training"]["cpu_seconds"]
    windows = ", ".join(f"{count:,} {split}" for split, count in data["windows"].items())
    return f"{NETWORKS[name].title} ({data['stations']} stations; {windows} windows; {cpu:.0f} CPU s)"


def _shown(comparison: Comparison) -> str:
    return f"{100 * comparison.gain:+.1f}{_PERCENT}{'' if comparison.is_significant else ' n.s.'}"


def _percent(gains: Sequence[float]) -> str:
    return f"{100 * sum(gains) / len(gains):+.1f}{_PERCENT}"
