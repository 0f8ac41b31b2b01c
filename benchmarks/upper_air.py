"""``python -m benchmarks.upper_air``: what the latent upper layer is worth to the field, on validation alone.

Trains the variant ``field`` one case after the other, for a number of steps or for as much CPU time as so many steps of
the extended equations take, and prints the scores of validation, the CPU time of a step and the mean steering wind.
Nothing is kept, no page is written and no test window is read: it is for choices, ``benchmarks.field_alone`` for
verdicts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.section import default_record
from fields.windows import StationSeries
from stationpde.config import Config
from stationpde.data import WindowSource, load_series
from stationpde.model import LocalReducer, ModelLearner, StationPDEModel
from stationpde.physics import TERMS, P
from stationpde.training import train

__all__ = ["CASES", "Outcome", "outcome_of", "pace", "steering_wind"]


def _terms(*more: str) -> str:
    return f"pde.terms={json.dumps([*TERMS, *more])}"


CASES: Mapping[str, tuple[str, ...]] = {
    "none": ("model.pde_branch=false",),
    "printed": ("pde.terms=[]",),
    "extended": (_terms(),),
    "upper": (_terms("upper_air"),),
    "placebo": (_terms("upper_air_placebo"),),
    "upper_alone": ('pde.terms=["upper_air"]',),
}
SHORT = ("train.epochs=10", "train.calibrate=false", "train.patience=10")
PACE_STEPS = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """Scores of a case: the MSE of each variable, the sum of MSE / variance over their number, time and wind."""

    steps: int
    seconds: float
    mse: Mapping[str, float]
    score: float
    wind: Mapping[str, float]

    def line(self, name: str) -> str:
        """Return a line of the table."""
        errors = "".join(f"{value:9.3f}" for value in self.mse.values())
        wind = "".join(f"  {key} {value:+.1f}" for key, value in self.wind.items())
        return f"{name:<22}{self.steps:>6}{self.seconds:>8.0f}{errors}{self.score:9.4f}{wind}"


def outcome_of(name: str, series: StationSeries, steps: int, windows: int, seed: int = 0) -> Outcome:
    """Train a case for so many steps and score it on validation."""
    learners: list[ModelLearner] = []

    def build(config: Config, source: WindowSource) -> ModelLearner:
        learners.append(ModelLearner.of(config, source.series, source.windows.split))
        return learners[-1]

    config = _config(name, f"train.max_steps={steps}", f"train.validate_windows={windows}", f"train.seed={seed}")
    folder, began = tempfile.mkdtemp(prefix="upper_air_"), time.process_time()
    try:
        result = train(config, series, Path(folder) / "run", build=build)
    finally:
        shutil.rmtree(folder)
    mse = {variable: score["mse"] for variable, score in result.validation.items()}
    wind = steering_wind(learners[-1].model, WindowSource.of(series, config), windows)
    return Outcome(result.steps, time.process_time() - began, mse, float(result.score or float("nan")), wind)


@torch.no_grad()
def steering_wind(model: StationPDEModel, source: WindowSource, windows: int) -> dict[str, float]:
    """Return the mean steering wind at the start of forecasts of training, which has all seasons, m/s."""
    branch = model.pde_branch
    if branch is None or branch.aloft is None:
        return {}
    model.eval()
    chosen = source.part("train", windows)
    share = branch.tendency.parameters_in_units()["steering_share"].magnitude
    speeds, months = [], []
    for first in range(0, len(chosen), 16):
        batch = source.batch(chosen[first : first + 16])
        analysis = model.analyse(batch.history, batch.issue_time)
        valid_time = model.valid_time(batch.issue_time, 1)
        state, base = model.interval_start(analysis.field, valid_time)
        assert base is not None and state[:, P].isfinite().all()
        supplied = branch.aloft(base, model.conditions.step(valid_time, 1))
        balanced = branch.aloft.balanced(supplied, state)
        mean = supplied[:, 2:4].unbind(1)
        parts = [(share * g + m).mean((-2, -1)) for g, m in zip(balanced, mean, strict=True)]
        speeds.append(torch.stack(parts, dim=-1))
        months.append(torch.remainder(batch.issue_time, 31_556_952) // 2_629_746)
    wind, month = torch.cat(speeds), torch.cat(months)
    table = {"U": wind[:, 0].mean(), "V": wind[:, 1].mean()}
    for season, of_season in (("U_DJF", (11, 0, 1)), ("U_JJA", (5, 6, 7))):
        there = torch.isin(month, torch.tensor(of_season))
        if there.any():
            table[season] = wind[there, 0].mean()
    return {key: float(value) for key, value in table.items()}


def pace(name: str, series: StationSeries) -> float:
    """Return the CPU seconds of a training step of a case."""
    config = _config(name)
    source = WindowSource.of(series, config)
    learner = ModelLearner.of(config, series, source.windows.split)
    learner.model.train()
    starts, spent = source.epoch(0), []
    for number in range(PACE_STEPS):
        batch = source.batch(starts[number * config.train.batch : (number + 1) * config.train.batch])
        began = time.process_time()
        learner.losses(batch, LocalReducer()).total.backward()
        spent.append(time.process_time() - began)
    return sorted(spent[1:])[len(spent[1:]) // 2]


def _config(name: str, *more: str) -> Config:
    return Config.preset("weather2k", variant="field").with_overrides([*SHORT, *CASES[name], *more])


def _main(print_line: Callable[[str], Any]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upper_air", description=__doc__)
    parser.add_argument("store", nargs="?", help="a store or raw files; inmet_south of the shared data by default")
    parser.add_argument("--steps", type=int, default=300, help="steps of the extended equations, and of all others")
    parser.add_argument("--equal-time", action="store_true", help="as much CPU time instead of as many steps")
    parser.add_argument("--windows", type=int, default=300, help="windows of validation that are scored")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        series = load_series(
            Path(options.store or default_record()), _config("extended").data, cache=Path(cache), quality="gross"
        )
        names = options.cases.split(",")
        paces = {name: pace(name, series) for name in {*names, "extended"}}
        print_line(f"CPU ms of a step: {', '.join(f'{name} {1e3 * paces[name]:.0f}' for name in names)}")
        for number, name in enumerate(names):
            ratio = paces["extended"] / paces[name] if options.equal_time else 1.0
            result = outcome_of(name, series, round(options.steps * ratio), options.windows, options.seed)
            if not number:
                head = "".join(f"{variable:>9}" for variable in result.mse)
                print_line(f"{'case':<22}{'steps':>6}{'CPU s':>8}{head}{'score':>9}")
            print_line(result.line(name))


if __name__ == "__main__":
    _main(lambda line: print(line, file=sys.stdout, flush=True))
