"""A dozen synthetic stations under travelling waves, and the smallest model of them: a forward pass in milliseconds."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import torch

from fields.windows.series import Stations, StationSeries
from fields.windows.torch_data import Batch, WindowDataset
from fields.windows.windows import Split, WindowSpec
from stationpde.config.tree import Config
from stationpde.guide.guide import Guide
from stationpde.model.climate import StateStatistics
from stationpde.model.guide_fit import fit_model_guide, guide_batches
from stationpde.model.model import StationPDEModel
from stationpde.model.task import ModelLearner

STEP = 21600
# Four steps a day, three sub-steps an interval.
SMALL = (
    "data.step=6h", "data.history=5", "data.horizon=2", "pde.dt=7200", "pde.max_wind=12",
    "pde.backend=torch", "grid.width=9", "train.station_dropout=0",
)  # fmt: skip
# Every kind of whole model: the two variants, and each switch of the equations.
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "default": ("default", ()),
    "paper": ("paper", ()),
    "pressure gradient": ("default", ("pde.pressure_gradient=true",)),
    "limiter": ("default", ("pde.rule=limiter", "model.closure_form=printed")),
    "semi-lagrangian": ("default", ("pde.advection=semi_lagrangian",)),
    "printed closure": ("default", ("model.closure_form=printed",)),
    "extended": ("default", ('pde.terms=["surroundings", "memory", "relaxation", "radiation"]',)),
    "upper air": ("default", ('pde.terms=["upper_air"]',)),
    "detrended": ("default", ("lift.method=detrended", "model.annual_harmonics=1")),
}


def places(count: int = 12, seed: int = 3) -> Stations:
    """Scatter stations over a thousand kilometres, up to 1500 m high."""
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(44.0, 52.0, count), rng.uniform(0.0, 13.0, count)
    return Stations(tuple(f"S{i:02d}" for i in range(count)), lat, lon, 1500.0 * rng.random(count) ** 2)


def weather(stations: Stations, steps: int = 120, seed: int = 0, gaps: float = 0.03) -> StationSeries:
    """Make a record of waves that travel east, a daily cycle, a lapse rate, hydrostatic pressure, and gaps."""
    rng = np.random.default_rng(seed)
    time = 1_672_531_200 + STEP * np.arange(steps, dtype=np.int64)
    seconds = (time - time[0])[:, None].astype(float)
    x, y = 72e3 * (stations.lon - 6.5), 111e3 * (stations.lat - 48.0)
    waves = np.zeros((3, steps, len(stations)))
    for length, speed, phase in ((1500e3, 11.0, 0.3), (2300e3, 8.0, 2.0), (3600e3, 14.0, 4.0)):
        angle = 2 * np.pi / length * (x + 0.4 * y - speed * seconds) + phase
        waves += np.stack([np.cos(angle), np.sin(angle), np.sin(angle + 0.9)])
    day = np.cos(2 * np.pi * (seconds / 86400.0 - 0.6))
    t = 288.0 - 0.0065 * stations.alt + 2.0 * waves[1] + 4.0 * day
    p = (101300.0 - 400.0 * waves[0]) * np.exp(-9.80665 * stations.alt / (287.05 * 284.0))
    rh = 0.65 + 0.08 * waves[2] - 0.08 * day
    values = np.stack([4.0 + 2.0 * waves[1], 1.5 * waves[2], p, t, rh], axis=-1)
    values += rng.normal(size=values.shape) * [0.3, 0.3, 15.0, 0.2, 0.01]
    values[rng.random(values.shape) < gaps] = np.nan
    return StationSeries(time, values, stations, STEP)


def small_config(variant: str = "default", overrides: tuple[str, ...] = ()) -> Config:
    """Return the tiny preset, smaller still; ``variant`` is a key of `VARIANTS`."""
    name, switches = VARIANTS[variant]
    narrow = ("model.encoder_hidden=4",)
    return Config.preset("tiny", variant=name).with_overrides([*SMALL, *narrow, *switches, *overrides])


@lru_cache(maxsize=1)
def small_series() -> StationSeries:
    return weather(places())


@lru_cache(maxsize=4)
def _statistics(state: str, annual: int) -> StateStatistics:
    series = small_series()
    overrides = [f"model.state={state}", f"model.annual_harmonics={annual}"]
    return StateStatistics.of(series, Split.of(len(series)), Config.preset("tiny").with_overrides(overrides))


def small_model(config: Config | None = None, seed: int = 0, eager: bool = True) -> StationPDEModel:
    """Build a model of `small_series` with weights from ``seed``; by default in evaluation mode."""
    config = config or small_config()
    torch.manual_seed(seed)
    section = config.model
    model = StationPDEModel.build(config, _statistics(section.state, section.annual_harmonics))
    return model.eval() if eager else model


def windows(config: Config, starts: list[int] | range, series: StationSeries | None = None) -> Batch:
    """Return a batch of windows of the record."""
    spec = WindowSpec(config.data.history, config.data.horizon)
    return WindowDataset(series or small_series(), np.asarray(starts), spec).at(torch.as_tensor(list(starts)))


def wild(model: torch.nn.Module, size: float = 0.3, seed: int = 1) -> None:
    """Move every parameter away from its initial value, where last layers are zero and hide the layers before them."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(
                size * noise * parameter.abs().mean().clamp(min=1e-8) if parameter.ndim == 1 else size * noise
            )


_GUIDES: dict[str, dict[str, torch.Tensor]] = {}


def learner(config: Config | None = None, seed: int = 0) -> ModelLearner:
    """Return a learner with a fitted guide; models that read the same rows with the same settings share one fit."""
    model = small_model(config, seed)
    if isinstance(model.guide, Guide):
        key = _rows_and_settings(model)
        if key not in _GUIDES:
            fit_model_guide(model, small_series(), Split.of(len(small_series())))
            _GUIDES[key] = {name: value.clone() for name, value in model.guide.state_dict().items()}
        model.guide.load_state_dict(_GUIDES[key])
    torch.manual_seed(seed)
    return ModelLearner(model)


def _rows_and_settings(model: StationPDEModel) -> str:
    """Return a key of all that a fit depends on: the bits of its first rows, and the settings of the guide."""
    batches = guide_batches(model, small_series(), Split.of(len(small_series())))
    with torch.no_grad():
        rows = next(batches.rows("first rows"))
    digest = hashlib.sha256()
    for tensor in (rows.pooled, rows.local, rows.target):
        digest.update(tensor.contiguous().numpy().tobytes())
    settings = {name: value for name, value in model.config.model.model_dump().items() if name.startswith("guide")}
    shapes = {name: tuple(value.shape) for name, value in model.guide.state_dict().items()}
    train = model.config.train
    return f"{digest.hexdigest()} {settings} {shapes} {train.seed} {train.station_dropout} {batches.starts.tolist()}"
