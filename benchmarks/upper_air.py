"""``python -m benchmarks.upper_air``: what the latent upper layer is worth to the field, on validation alone.

Trains the variant ``field`` one case after the other, for a number of steps or for as much CPU time as so many steps of
the extended equations take, and prints errors on validation, gains over the extended equations, the CPU time of a step
and the mean steering wind; the trained layer is also scored with the wind of another day. Nothing is kept, no page is
written and no test window is read: it is for choices, ``benchmarks.field_alone`` for verdicts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.section import default_record
from fields.variables import to_display
from fields.windows import StationSeries
from stationpde.config import Config
from stationpde.data import WindowSource, load_series
from stationpde.evaluation import ErrorStatistics, compare, score
from stationpde.model import LocalReducer, ModelLearner, StationPDEModel
from stationpde.physics import TERMS
from stationpde.training import train

__all__ = ["CASES", "Outcome", "outcomes", "pace", "steering_wind"]

BATCH, PACE_STEPS = 8, 6
SHORT = ("train.epochs=100", "train.calibrate=false", "train.validate_windows=8", "train.patience=1000")


def _terms(*names: str) -> str:
    return f"pde.terms={json.dumps(names)}"


CASES: Mapping[str, tuple[str, ...]] = {
    "extended": (_terms(*TERMS),),
    "upper": (_terms(*TERMS, "upper_air"),),
    "placebo": (_terms(*TERMS, "upper_air_placebo"),),
    "printed": (_terms(),),
    "printed_upper": (_terms("upper_air"),),
    "none": ("model.pde_branch=false",),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Errors of a case on validation, its steps and CPU seconds, and its mean steering wind, m/s."""

    errors: ErrorStatistics
    steps: int
    seconds: float
    wind: Mapping[str, float]

    def line(self, name: str, variance: Mapping[str, float]) -> str:
        """Return the MSE of each variable, and their mean in parts of the variance of the targets."""
        mse = _mse(self.errors)
        nmse = sum(value / variance[variable] for variable, value in mse.items()) / len(mse)
        wind = "".join(f"  {part} {value:+.1f}" for part, value in self.wind.items())
        values = "".join(f"{value:9.3f}" for value in mse.values())
        return f"{name:<18}{self.steps:>6}{self.seconds:>7.0f}{values}{nmse:9.4f}{wind}"


def outcomes(name: str, series: StationSeries, steps: int, windows: int, seed: int = 0) -> dict[str, Outcome]:
    """Train a case for so many steps and score it on validation; a layer above with the wind of another day as well."""
    config = _config(name, f"train.max_steps={steps}", f"train.seed={seed}")
    learners: list[ModelLearner] = []

    def build(config: Config, source: WindowSource) -> ModelLearner:
        learners.append(ModelLearner.of(config, source.series, source.windows.split))
        return learners[-1]

    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="upper_air_") as folder:
        result = train(config, series, Path(folder) / "run", build=build)
    seconds, source, trained = time.process_time() - began, WindowSource.of(series, config), learners[-1]
    wind = steering_wind(trained.model, source, windows)
    scored = {name: Outcome(_errors(trained, source, config, windows), result.steps, seconds, wind)}
    if config.steered_by == "own wind":
        other = _config(name, config.steered_by and CASES[name][0].replace("upper_air", "upper_air_placebo"))
        swapped = ModelLearner.of(other, series, source.windows.split)
        swapped.model.load_state_dict(trained.model.state_dict())
        scored[f"{name}, other wind"] = Outcome(_errors(swapped, source, other, windows), result.steps, seconds, {})
    return scored


def _errors(learner: ModelLearner, source: WindowSource, config: Config, windows: int) -> ErrorStatistics:
    learner.model.eval()
    return score(learner, source, config, source.part("val", windows), batch=BATCH).statistics()


@torch.no_grad()
def steering_wind(model: StationPDEModel, source: WindowSource, windows: int) -> dict[str, float]:
    """Return the mean steering wind at the start of forecasts of training, which has all seasons, m/s."""
    branch = model.pde_branch
    if branch is None or branch.aloft is None:
        return {}
    model.eval()
    share = float(branch.tendency.parameters_in_units()["steering_share"].magnitude)
    starts, speeds, months = source.part("train", windows), [], []
    for first in range(0, len(starts), BATCH):
        batch = source.batch(starts[first : first + BATCH])
        field, valid_time = model.analyse(batch.history, batch.issue_time).field, model.valid_time(batch.issue_time, 1)
        state, base = model.interval_start(field, valid_time)
        assert base is not None  # the layer is one of departures
        supplied = branch.aloft(base, model.conditions.step(valid_time, 1))
        balanced = torch.stack(branch.aloft.balanced(supplied, state), dim=1)
        speeds.append((share * balanced + supplied[:, 2:4]).mean((-2, -1)))
        months.append(torch.remainder(batch.issue_time, 31_556_952) // 2_629_746)
    wind, month = torch.cat(speeds), torch.cat(months)
    means = {"U": wind[:, 0].mean(), "V": wind[:, 1].mean()}
    for season, of_season in {"U_DJF": (11, 0, 1), "U_JJA": (5, 6, 7)}.items():
        there = torch.isin(month, torch.tensor(of_season))
        if bool(there.any()):
            means[season] = wind[there, 0].mean()
    return {part: float(value) for part, value in means.items()}


def pace(name: str, series: StationSeries) -> float:
    """Return the CPU seconds of a training step of a case, forward and back."""
    config = _config(name)
    source = WindowSource.of(series, config)
    learner = ModelLearner.of(config, series, source.windows.split)
    learner.model.train()
    starts, spent = source.epoch(0), []
    for number in range(PACE_STEPS):
        batch = source.batch(starts[number * BATCH : (number + 1) * BATCH])
        began = time.process_time()
        learner.losses(batch, LocalReducer()).total.backward()
        spent.append(time.process_time() - began)
    return sorted(spent[1:])[len(spent[1:]) // 2]  # the first compiles


def _config(name: str, *more: str) -> Config:
    return Config.preset("weather2k", variant="field").with_overrides([*CASES[name], *SHORT, *more])


def _mse(errors: ErrorStatistics) -> dict[str, float]:
    count, squared = errors.day[0].sum(axis=0), errors.day[1].sum(axis=0)
    return dict(zip(errors.variables, (squared / count).tolist(), strict=True))


def _variance(series: StationSeries) -> dict[str, float]:
    """Return the mean over stations of the variance of each variable in validation, in display units squared."""
    part = WindowSource.of(series, _config("extended")).windows.split.slice("val")
    spread = np.nanmean(np.nanvar(series.values[part], axis=0), axis=0)
    scale = [float(to_display(name, 1.0, difference=True)) for name in series.variables]
    return {name: float(value) * unit**2 for name, value, unit in zip(series.variables, spread, scale, strict=True)}


def _gains(ours: ErrorStatistics, other: ErrorStatistics) -> str:
    compared = compare(ours, other).items()
    return ", ".join(f"{v} {100 * c.gain:+.1f}{'' if c.is_significant else ' n.s.'}" for v, c in compared)


def _say(line: str) -> None:
    print(line, flush=True)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upper_air", description=__doc__)
    parser.add_argument("store", nargs="?", help="a store or raw files; inmet_south of the shared data by default")
    parser.add_argument("--steps", type=int, default=1000, help="steps of the extended equations, and of all others")
    parser.add_argument("--equal-time", action="store_true", help="as much CPU time instead of as many steps")
    parser.add_argument("--windows", type=int, default=400, help="windows of validation that are scored")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        path = Path(options.store or default_record())
        series = load_series(path, _config("extended").data, cache=Path(cache), quality="gross")
        names = options.cases.split(",")
        paces = {name: pace(name, series) for name in dict.fromkeys(["extended", *names])}
        _say(f"CPU ms of a step: {', '.join(f'{name} {1e3 * value:.0f}' for name, value in paces.items())}")
        table: dict[str, Outcome] = {}
        for name in names:
            steps = round(options.steps * (paces["extended"] / paces[name] if options.equal_time else 1.0))
            for label, outcome in outcomes(name, series, steps, options.windows, options.seed).items():
                errors = outcome.errors
                if not table:
                    heads = "".join(f"{variable:>9}" for variable in errors.variables)
                    _say(f"{'case':<18}{'steps':>6}{'CPU s':>7}{heads}{'nMSE':>9}")
                table[label] = outcome
                _say(outcome.line(label, _variance(series)))
                first = next(iter(table))
                if label != first:
                    _say(f"{'':<18}% less than {first}: {_gains(errors, table[first].errors)}")


if __name__ == "__main__":
    _main()
