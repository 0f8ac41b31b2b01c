"""Forecasts through the field without anything learned: lift the last observations, carry the field on, read it.

The field is that of the configuration: the state itself, or its departures from the station × hour climatology, which
spare the lift the altitudes. The climatology is that of the issue time for all leads, so that it brings no daily cycle
into the forecast: what is carried on is the field as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fields.terrain import Elevation
from fields.torch_data import Batch
from pde_ops import Grid2D, StabilityError
from stationpde.adapters import BaseState, Region, Sites
from stationpde.baselines.inputs import StationInputs, horizon_of
from stationpde.config import Config
from stationpde.pde_branch import PDEBranch, has_base
from stationpde.state import clipped, to_observed, to_state
from stationpde.statistics import StateStatistics
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["FieldForecast"]

_MOST_HALVINGS = 5


@dataclass(frozen=True, slots=True, eq=False)
class FieldForecast:
    """The lifted field, as it is or carried on by the equations; ``base`` is that of the cells, if there is one."""

    config: Config
    inputs: StationInputs
    sites: Sites
    base: BaseState | None
    equations: PDEBranch | None

    @classmethod
    def of(cls, config: Config, source: WindowSource, *, equations: bool) -> FieldForecast:
        """On the grid of a configuration, with the climatology of the training split."""
        series = source.series
        statistics = StateStatistics.of(series, source.windows.split, config)
        elevation = None if config.grid.dem is None else Elevation.open(config.grid.dem)
        region = Region.around(series.stations, config, elevation)
        return cls(
            config,
            StationInputs.of(source),
            Sites(series.stations, region, statistics, config).eval(),
            region.cell_base(statistics, config) if has_base(config) else None,
            _equations(config, region.pde_grid) if equations else None,
        )

    @torch.no_grad()
    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """What the field has at the stations, lead by lead."""
        issue, saturation = batch.issue_time, self.config.model.saturation
        last = self.inputs.filled(batch.history, issue)[:, -1:]
        own = to_state(last, self.sites.pressure, saturation) - self.sites.base(issue[:, None])
        field = self.sites.lifted(last, own)[0][:, 0]
        base = None
        if self.base is not None:
            base = self.base(issue).movedim(-1, -2).reshape(field.shape)
            field = field - base if self.sites.detrends else field
        states = []
        for _ in range(horizon_of(batch, self.config)):
            if self.equations is not None:
                field = self.equations(field, base, field[:, :0], nn.Identity())
            states.append(self.sites.read(field) + self.sites.base(issue))
        return clipped(to_observed(torch.stack(states, dim=1), saturation))


def _equations(config: Config, grid: Grid2D, halvings: int = _MOST_HALVINGS) -> PDEBranch:
    """The equations without a closure; with shorter sub-steps where a small network makes small cells."""
    try:
        return PDEBranch(config.with_overrides(["model.closure=false", "pde.terms=[]"]), grid, 0).eval()
    except StabilityError:
        if halvings == 0:
            raise
        return _equations(config.with_overrides([f"pde.dt={config.pde.dt / 2!r}"]), grid, halvings - 1)
