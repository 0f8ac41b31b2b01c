"""The demo: a synthetic network on real relief, from ingest to report, offline and within a minute.

It shows the tool, not skill. Every stage keeps its files; the same call resumes an interrupted demo.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic, store
from fields.variables import VARIABLES
from stationpde.errors import UsageError

if TYPE_CHECKING:
    from fields.windows import StationSeries
    from stationpde.config import Config
    from stationpde.data import WindowSource
    from stationpde.evaluation import ErrorStatistics
    from stationpde.report import RunScores
    from stationpde.runs import LoadedRun

__all__ = ["Demo", "StageOutput", "run_demo"]

SYNTHETIC = "This network is synthetic: made-up weather on real relief. It shows the tool, not skill."
# References in the order of the table; our model follows them.
RULES, PEER = ("persistence", "climatology"), "dlinear"
_MARK = "demo.json"
_FILES = (
    _MARK, "network.toml", "data.zarr", "run", "dlinear", "scores.json", "forecast.zarr", "map.png", "report.html",
)  # fmt: skip
_MOMENTS, _WINDOWS = 48, 96


@dataclass(frozen=True, slots=True)
class StageOutput:
    """Output of a stage for people: a heading, lines, and a table with its heads."""

    title: str
    lines: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Demo:
    """Settings of the demo, and its results so far.

    ``show`` is called with the output of each stage, ``watcher`` with the progress of a long one; ``results`` collects
    what `run_demo` returns.
    """

    out: Path
    config: Config
    stations: int = 64
    days: int = 90
    seed: int = 0
    show: Callable[[StageOutput], None] = lambda stage: None
    watcher: Callable[[Any], None] | None = None
    results: dict[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings that decide the numbers of the demo."""
        return {"stations": self.stations, "days": self.days, "seed": self.seed, "config": self.config.hash()}


def run_demo(demo: Demo, *, force: bool = False) -> dict[str, Any]:
    """Run the demo, or resume one that was interrupted; return its results as plain values.

    Raises
    ------
    UsageError
        If the output folder holds a finished demo, or anything else.
    """
    _open(demo, force)
    demo.show(StageOutput(SYNTHETIC))
    series = _ingest(demo)
    _check_lift(demo)
    run, source = _train(demo, series)
    scored = _compare(demo, run, source)
    _explain(demo, run, scored)
    _write(demo, run, scored)
    _mark(demo, "done")
    return {"synthetic": True, "out": str(demo.out), **demo.results}


def next_commands(out: Path) -> tuple[str, str, str]:
    """Return the commands to type next."""
    run, store = shlex.quote(str(out / "run")), shlex.quote(str(out / "data.zarr"))
    return (
        f"stationpde forecast {run} --obs {store} -o tomorrow.csv",
        f"stationpde train {store} --preset demo --run runs/longer --set train.epochs=8 --set train.max_steps=400",
        "stationpde data ingest observations.csv -o mine.zarr",
    )


# ---- the output ------------------------------------------------------------------------------------------------


def _open(demo: Demo, force: bool) -> None:
    out, mark = demo.out, demo.out / _MARK
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is no directory", code="SPDE-R020", do="choose another --output")
    started = atomic.read_table(mark) if mark.exists() else None
    foreign = sorted(p.name for p in out.iterdir() if p.name not in _FILES) if out.is_dir() else []
    if out.is_dir() and started is None and any(out.iterdir()):
        raise UsageError(
            f"{out} exists and is no demo (it holds {', '.join(foreign[:3]) or 'parts of one'})", code="SPDE-R020",
            do="choose another --output",
        )  # fmt: skip
    if started is not None and not force:
        if started.get("state") == "done":
            raise UsageError(
                f"{out} holds a finished demo", code="SPDE-R020", do="open its report.html, or add --force"
            )
        if started.get("recipe") != demo.recipe:
            raise UsageError(
                f"{out} holds the beginning of another demo", code="SPDE-R020", do="add --force to start again"
            )
    if started is not None and force:
        for name in _FILES:
            path = out / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    atomic.write_probe(out)
    out.mkdir(parents=True, exist_ok=True)
    _mark(demo, "begun")


def _mark(demo: Demo, state: str) -> None:
    about = {"state": state, "recipe": demo.recipe, **({"found": demo.results} if state == "done" else {})}
    with atomic.machine_faults(demo.out):
        atomic.write_file(demo.out / _MARK, json.dumps(about).encode())


# ---- the stages ------------------------------------------------------------------------------------------------


def _ingest(demo: Demo) -> StationSeries:
    """Ingest the synthetic network as real data are ingested, and return its record."""
    from fields.ingest import IngestOptions, ingest_files
    from fields.store import data_card
    from stationpde.data import load_series

    source, target = demo.out / "network.toml", demo.out / "data.zarr"
    if not store.is_store(target):
        recipe = f"[synthetic]\nstations = {demo.stations}\ndays = {demo.days}\nseed = {demo.seed}\n"
        atomic.write_file(source, recipe.encode())
        ingest_files(source, target, IngestOptions(force=True), demo.watcher)
    card = data_card(store.open_store(target, masked=False), path=target)
    demo.show(StageOutput("Data", tuple(card.lines())))
    demo.results["card"] = card.to_dict()
    return load_series(str(target), demo.config.data)


def _check_lift(demo: Demo) -> None:
    """Compare lift methods: estimate stations that are left out, horizontally and with their altitude."""
    from fields.lift import cross_validate

    methods = ("idw", "terrain_idw", "detrended")
    scores = cross_validate(store.open_store(demo.out / "data.zarr"), methods, moments=_MOMENTS, watcher=demo.watcher)
    rows = tuple(tuple(row) for row in scores.rows())
    heads = ("RMSE", "unit", "horizontal", "terrain-aware", "detrended")
    line = f"Each of {scores.stations} stations left out in turn, at {scores.moments} times:"
    demo.show(StageOutput("Lift: stations to fields", (line,), heads, rows))
    demo.results["lift"] = scores.to_dict()


def _train(demo: Demo, series: StationSeries) -> tuple[LoadedRun, WindowSource]:
    from stationpde.data import WindowSource
    from stationpde.runs import load_run
    from stationpde.training import train

    result = train(demo.config, series, demo.out / "run", watcher=demo.watcher)
    demo.show(StageOutput("Training", (f"{result.steps:,} steps; best checkpoint {result.best}",)))
    facts = {"checkpoint": str(result.best), "steps": result.steps, "weights_sha256": result.weights_sha256}
    demo.results.update(facts)
    return load_run(demo.out / "run"), WindowSource.of(series, demo.config)


def _compare(demo: Demo, run: LoadedRun, source: WindowSource) -> RunScores:
    """Compare our model with three others, every variable in physical units; scores on file are not computed again."""
    from stationpde.data import describe_quality
    from stationpde.report import OURS, RunScores, score_run

    file = demo.out / "scores.json"
    content = atomic.read_table(file)
    if content is None or not RunScores.can_read(content):
        peer = {PEER: _trained_peer(demo, source)}
        scored = score_run(run.model.at(source.series.stations), source, _WINDOWS, RULES, trained=peer)
        content = scored.to_dict()
        atomic.write_file(file, json.dumps(content).encode())
    # The scores shown are those of the file, whichever process wrote it.
    scored = RunScores.from_dict(content)
    heads, rows, table = _table(scored.statistics)
    days = len(scored.statistics[OURS].day[0])
    values = describe_quality(demo.config.data.quality)
    lines = (
        f"MSE over {scored.windows} test windows of {days} days ({values}); * differs from ours at 5 %; skill over "
        "persistence:",
    )
    demo.show(StageOutput("Forecasts compared", lines, heads, rows))
    demo.results["scores"] = table
    return scored


def _trained_peer(demo: Demo, source: WindowSource) -> Any:
    """Train DLinear by the same loop and return it as a forecaster."""
    from stationpde.baselines import baseline
    from stationpde.runs import RunDirectory, load_weights
    from stationpde.training import take_weights, train

    peer = baseline(PEER)
    settings_of_peer = [f"train.{key}={value!r}" for key, value in peer.train.items()]
    settings_of_peer += [f"train.lr={peer.rates[-1]!r}"] if peer.rates else []
    # Its validation error is flat after some eighty steps.
    steps = min(100, 8 * (demo.config.train.max_steps or 100))
    fixed = ["train.batch=32", "train.epochs=8", f"train.max_steps={steps}", "train.validate_windows=64"]
    settings = demo.config.with_overrides([*settings_of_peer, *fixed])
    run = demo.out / "dlinear"
    train(settings, source.series, run, build=lambda c, s: peer.make(c, s))
    learner = peer.make(settings, source)
    take_weights(learner.module, load_weights(RunDirectory(run).checkpoint("best")), run)
    learner.module.eval().requires_grad_(False)
    return learner


def _table(
    scores: Mapping[str, ErrorStatistics],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], dict[str, Any]]:
    """Build heads and rows for people, and the same numbers for machines."""
    from stationpde.evaluation import compare, scores_by, squared_unit
    from stationpde.report import OURS, model_title

    order = [*RULES, PEER, OURS]
    each = {name: scores_by(scores[name].total, scores[name].variables) for name in order}
    against = {name: compare(scores[OURS], scores[name]) for name in order if name != OURS}
    rows, table = [], {}
    for variable in scores[OURS].variables:
        ours = each[OURS][variable]
        skill = 1.0 - ours.mse / each["persistence"][variable].mse
        stars = {name: "*" if tests[variable].is_significant else " " for name, tests in against.items()}
        cells = [f"{each[name][variable].mse:.3g}{stars.get(name, '')}" for name in order]
        rows.append((VARIABLES[variable].long_name, squared_unit(ours.unit), *cells, f"{skill:.2f}"))
        table[variable] = {
            "unit": ours.unit, "skill": skill, "mse": {name: each[name][variable].mse for name in order},
            "mae": {name: each[name][variable].mae for name in order},
            "significance": {name: tests[variable].to_dict() for name, tests in against.items()},
        }  # fmt: skip
    heads = ("MSE", "unit", *(model_title(name) for name in order), "skill")
    return heads, tuple(rows), table


def _explain(demo: Demo, run: LoadedRun, scored: RunScores) -> None:
    """Show the learned physics with units, and the router's mean weights."""
    from stationpde.model import coefficients_of
    from stationpde.physics import STATE
    from stationpde.plots import coefficient_label
    from stationpde.report import CHANNEL_TITLES

    physics = coefficients_of(run.model)
    named = [f"{coefficient_label(name)} = {c}" for name, c in physics.items() if not name.startswith("gamma")]
    lines = ["  ".join(named[n : n + 4]) for n in range(0, len(named), 4)]
    factors = [f"{coefficient_label(name)} {c.value:.3f}" for name, c in physics.items() if name.startswith("gamma")]
    lines += ["  ".join(factors[n : n + 5]) for n in range(0, len(factors), 5)]
    if scored.router is not None:
        mean = scored.router.mean(axis=0).tolist()
        demo.results["router"] = dict(zip(STATE, mean))
        shares = ", ".join(f"{CHANNEL_TITLES[name]} {share:.2f}" for name, share in zip(STATE, mean))
        lines.append(f"weight of the data-driven branch: {shares}; the rest is the equations'")
    demo.show(StageOutput("Learned physics", tuple(lines)))
    demo.results["physics"] = {name: {"value": c.value, "unit": c.unit} for name, c in physics.items()}


def _write(demo: Demo, run: LoadedRun, scored: RunScores) -> None:
    from stationpde import forecasting
    from stationpde.forecasting import Audit, write_forecast
    from stationpde.plots import draw_forecast_map
    from stationpde.report import build_run_view, write_page

    out = demo.out
    latest = forecasting.forecast([run], out / "data.zarr")
    audit = json.loads(latest.attrs["physics_audit"])
    demo.show(StageOutput("Physics audit of the latest forecast", tuple(Audit(**audit).lines())))
    demo.results["audit"] = audit
    write_forecast(latest, out / "forecast.zarr", force=True)
    view = build_run_view(run, out / "data.zarr", scored=scored)
    assert view.moment is not None and view.relief is not None
    draw_forecast_map(view.moment, view.relief, out / "map.png", variable="t")
    write_page(view, out / "report.html")
    names = {"report": "report.html", "map": "map.png", "forecast": "forecast.zarr", "data": "data.zarr"}
    demo.results["files"] = {what: str(out / name) for what, name in names.items()}
    demo.results["files"]["checkpoint"] = demo.results["checkpoint"]
    demo.results["next"] = list(next_commands(out))
    demo.show(StageOutput("Files", tuple(f"{what:<11}{path}" for what, path in demo.results["files"].items())))
    demo.show(StageOutput("Next", tuple(demo.results["next"])))
