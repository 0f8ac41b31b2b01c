"""The first run: a made-up network on real relief, from ingest to report, offline and within a minute.

It shows the tool, not skill. Every stage keeps what it made; the same call goes on where an interrupted one stopped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic, store
from fields.variables import VARIABLES
from stationpde.errors import UsageError

if TYPE_CHECKING:
    from fields.series import StationSeries
    from stationpde.config import Config
    from stationpde.evaluation.statistics import ErrorStatistics
    from stationpde.loading import LoadedRun
    from stationpde.report.view import Scored
    from stationpde.training.source import WindowSource

__all__ = ["Demo", "Told", "run_demo"]

SYNTHETIC = "This network is synthetic: made-up weather on real relief. It shows the tool, not skill."
# In the order of the table; the last is ours.
RULES, PEER = ("persistence", "climatology"), "dlinear"
_MARK = "demo.json"
_OWN = (_MARK, "network.toml", "data.zarr", "run", "dlinear", "scores.json", "forecast.zarr", "map.png", "report.html")
_MOMENTS, _WINDOWS = 48, 96


@dataclass(frozen=True, slots=True)
class Told:
    """What a stage has to say: a heading, lines, and a table with its heads."""

    title: str
    lines: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo is made of; ``tell`` hears the outcome of each stage, ``watcher`` how far a long one is."""

    out: Path
    config: Config
    stations: int = 64
    days: int = 90
    seed: int = 0
    tell: Callable[[Told], None] = lambda told: None
    watcher: Callable[[Any], None] | None = None
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides its numbers."""
        return {"stations": self.stations, "days": self.days, "seed": self.seed, "config": self.config.hash()}


def run_demo(demo: Demo, *, force: bool = False) -> dict[str, Any]:
    """Run the demo, or go on with one that was interrupted; everything it found, for machines.

    Raises
    ------
    UsageError
        If the output exists and is finished, or is no demo's.
    """
    _open(demo, force)
    demo.tell(Told(SYNTHETIC))
    series = _ingest(demo)
    _check_lift(demo)
    run, source = _train(demo, series)
    scored = _compare(demo, run, source)
    _explain(demo, run, scored)
    _write(demo, run, scored)
    _mark(demo, "done")
    return {"synthetic": True, "out": str(demo.out), **demo.found}


def next_commands(out: Path) -> tuple[str, str, str]:
    """What to type next."""
    return (
        f"stationpde forecast {out / 'run'} --obs {out / 'data.zarr'} -o tomorrow.csv",
        f"stationpde train {out / 'data.zarr'} --preset demo --run runs/longer --set train.epochs=8 "
        "--set train.max_steps=400",
        "stationpde data ingest observations.csv -o mine.zarr",
    )


# ---- the output ------------------------------------------------------------------------------------------------


def _open(demo: Demo, force: bool) -> None:
    out, mark = demo.out, demo.out / _MARK
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is no directory", code="SPDE-R020", do="choose another --out")
    there = atomic.read_json(mark) if mark.exists() else None
    foreign = sorted(p.name for p in out.iterdir() if p.name not in _OWN) if out.is_dir() else []
    if out.is_dir() and there is None and any(out.iterdir()):
        raise UsageError(
            f"{out} exists and is no demo (it holds {', '.join(foreign[:3]) or 'parts of one'})", code="SPDE-R020",
            do="choose another --out",
        )  # fmt: skip
    if there is not None and not force:
        if there.get("state") == "done":
            raise UsageError(
                f"{out} holds a finished demo", code="SPDE-R020", do="look at its report.html, or add --force"
            )
        if there.get("recipe") != demo.recipe:
            raise UsageError(
                f"{out} holds the beginning of another demo", code="SPDE-R020", do="add --force to begin anew"
            )
    if there is not None and force:
        for name in _OWN:
            path = out / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    atomic.write_probe(out)
    out.mkdir(parents=True, exist_ok=True)
    _mark(demo, "begun")


def _mark(demo: Demo, state: str) -> None:
    about = {"state": state, "recipe": demo.recipe, **({"found": demo.found} if state == "done" else {})}
    with atomic.machine_faults(demo.out):
        atomic.write_file(demo.out / _MARK, json.dumps(about).encode())


# ---- the stages ------------------------------------------------------------------------------------------------


def _ingest(demo: Demo) -> StationSeries:
    """The network, through the same door as real data."""
    from fields.card import data_card
    from fields.ingest import IngestOptions, ingest
    from stationpde.data import load_series

    source, target = demo.out / "network.toml", demo.out / "data.zarr"
    if not store.is_store(target):
        recipe = f"[synthetic]\nstations = {demo.stations}\ndays = {demo.days}\nseed = {demo.seed}\n"
        atomic.write_file(source, recipe.encode())
        ingest(source, target, IngestOptions(force=True), demo.watcher)
    card = data_card(store.open(target, masked=False), path=target)
    demo.tell(Told("Data", tuple(card.lines())))
    demo.found["card"] = card.to_dict()
    return load_series(str(target), demo.config.data)


def _check_lift(demo: Demo) -> None:
    """How well stations are estimated that were left out: horizontally, and with their altitude."""
    from fields.crossval import cross_validate

    methods = ("idw", "terrain_idw", "detrended")
    found = cross_validate(store.open(demo.out / "data.zarr"), methods, moments=_MOMENTS, watcher=demo.watcher)
    rows = tuple(tuple(row) for row in found.rows())
    heads = ("RMSE", "unit", "horizontal", "terrain-aware", "detrended")
    told = f"Each of {found.stations} stations left out in turn, at {found.moments} times:"
    demo.tell(Told("Lift: stations to fields", (told,), heads, rows))
    demo.found["lift"] = found.to_dict()


def _train(demo: Demo, series: StationSeries) -> tuple[LoadedRun, WindowSource]:
    from stationpde.loading import load_run
    from stationpde.training.session import train
    from stationpde.training.source import WindowSource

    result = train(demo.config, series, demo.out / "run", watcher=demo.watcher)
    demo.tell(Told("Training", (f"{result.steps:,} steps; best checkpoint {result.best}",)))
    demo.found.update({"checkpoint": str(result.best), "steps": result.steps, "weights_sha256": result.weights_sha256})
    return load_run(demo.out / "run"), WindowSource.of(series, demo.config)


def _compare(demo: Demo, run: LoadedRun, source: WindowSource) -> Scored:
    """The table: every variable, ours and three others, in physical units."""
    from stationpde.report.view import OURS, Scored, score_run

    kept = demo.out / "scores.json"
    known = atomic.read_json(kept) if kept.exists() else None
    if not isinstance(known, dict):
        peer = {PEER: _trained_peer(demo, source)}
        scored = score_run(run.model.at(source.series.stations), source, _WINDOWS, RULES, trained=peer)
        known = scored.to_dict()
        atomic.write_file(kept, json.dumps(known).encode())
    # What is shown comes from the file, whichever process wrote it.
    scored = Scored.from_dict(known)
    heads, rows, table = _table(scored.statistics)
    days = len(scored.statistics[OURS].day[0])
    lines = (
        f"MSE over {scored.windows} test windows of {days} days; * differs from ours at 5 %; skill over persistence:",
    )
    demo.tell(Told("Forecasts compared", lines, heads, rows))
    demo.found["scores"] = table
    return scored


def _trained_peer(demo: Demo, source: WindowSource) -> Any:
    """DLinear, through the same loop."""
    from stationpde.baselines import baseline
    from stationpde.training.checkpoint import load_weights
    from stationpde.training.run_directory import RunDirectory
    from stationpde.training.session import train
    from stationpde.training.state import take_weights

    peer = baseline(PEER)
    suited = [f"train.{key}={value!r}" for key, value in peer.train.items()]
    suited += [f"train.lr={peer.rates[-1]!r}"] if peer.rates else []
    # Its validation error is flat after some eighty steps.
    steps = min(100, 8 * (demo.config.train.max_steps or 100))
    fixed = ["train.batch=32", "train.epochs=8", f"train.max_steps={steps}", "train.validate_windows=64"]
    settings = demo.config.with_overrides([*suited, *fixed])
    run = demo.out / "dlinear"
    train(settings, source.series, run, build=lambda c, s: peer.make(c, s))
    learner = peer.make(settings, source)
    take_weights(learner.module, load_weights(RunDirectory(run).checkpoint("best")), run)
    learner.module.eval().requires_grad_(False)
    return learner


def _table(
    scores: Mapping[str, ErrorStatistics],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], dict[str, Any]]:
    """Heads and rows for people, and the same for machines."""
    from stationpde.evaluation.metrics import scores_by, squared_unit
    from stationpde.evaluation.significance import compare
    from stationpde.report.content import model_title
    from stationpde.report.view import OURS

    order = [*RULES, PEER, OURS]
    each = {name: scores_by(scores[name].total, scores[name].variables) for name in order}
    against = {name: compare(scores[OURS], scores[name]) for name in order if name != OURS}
    rows, table = [], {}
    for variable in scores[OURS].variables:
        ours = each[OURS][variable]
        skill = 1.0 - ours.mse / each["persistence"][variable].mse
        stars = {name: "*" if found[variable].is_significant else " " for name, found in against.items()}
        cells = [f"{each[name][variable].mse:.3g}{stars.get(name, '')}" for name in order]
        rows.append((VARIABLES[variable].long_name, squared_unit(ours.unit), *cells, f"{skill:.2f}"))
        table[variable] = {
            "unit": ours.unit, "skill": skill, "mse": {name: each[name][variable].mse for name in order},
            "mae": {name: each[name][variable].mae for name in order},
            "significance": {name: found[variable].to_dict() for name, found in against.items()},
        }  # fmt: skip
    heads = ("MSE", "unit", *(model_title(name) for name in order), "skill")
    return heads, tuple(rows), table


def _explain(demo: Demo, run: LoadedRun, scored: Scored) -> None:
    """Learned physics with units, and the router's mean weights."""
    from stationpde.api import StationPDE
    from stationpde.plots.physics import coefficient_label
    from stationpde.report.content import CHANNEL_TITLES
    from stationpde.state import STATE

    physics = StationPDE(run).physics()
    named = [f"{coefficient_label(name)} = {c}" for name, c in physics.items() if not name.startswith("gamma")]
    lines = ["  ".join(named[n : n + 4]) for n in range(0, len(named), 4)]
    factors = [f"{coefficient_label(name)} {c.value:.3f}" for name, c in physics.items() if name.startswith("gamma")]
    lines += ["  ".join(factors[n : n + 5]) for n in range(0, len(factors), 5)]
    if scored.router is not None:
        mean = scored.router.mean(axis=0).tolist()
        demo.found["router"] = dict(zip(STATE, mean))
        shares = ", ".join(f"{CHANNEL_TITLES[name]} {share:.2f}" for name, share in zip(STATE, mean))
        lines.append(f"weight of the data-driven branch: {shares}; the rest is the equations'")
    demo.tell(Told("Learned physics", tuple(lines)))
    demo.found["physics"] = {name: {"value": c.value, "unit": c.unit} for name, c in physics.items()}


def _write(demo: Demo, run: LoadedRun, scored: Scored) -> None:
    from stationpde import forecasting
    from stationpde.audit import Audit
    from stationpde.forecast_output import write_forecast
    from stationpde.plots.maps import draw_forecast_map
    from stationpde.report import look, write_page

    out = demo.out
    made = forecasting.forecast([run], out / "data.zarr")
    audit = json.loads(made.attrs["physics_audit"])
    demo.tell(Told("Physics audit of the latest forecast", tuple(Audit(**audit).lines())))
    demo.found["audit"] = audit
    write_forecast(made, out / "forecast.zarr", force=True)
    view = look(run, out / "data.zarr", scored=scored)
    assert view.moment is not None and view.relief is not None
    draw_forecast_map(view.moment, view.relief, out / "map.png", variable="t")
    write_page(view, out / "report.html")
    names = {"report": "report.html", "map": "map.png", "forecast": "forecast.zarr", "data": "data.zarr"}
    demo.found["files"] = {what: str(out / name) for what, name in names.items()}
    demo.found["files"]["checkpoint"] = demo.found["checkpoint"]
    demo.found["next"] = list(next_commands(out))
    demo.tell(Told("Files", tuple(f"{what:<11}{path}" for what, path in demo.found["files"].items())))
    demo.tell(Told("Next", tuple(demo.found["next"])))
