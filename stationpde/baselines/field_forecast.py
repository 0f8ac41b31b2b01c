"""Forecasts through the field without learning: lift the last observations, step the field, read it at stations.

The field is that of the configuration: the state itself, or its departures from the station × hour climatology, which
hardly depend on altitude. The climatology is that of the issue time for all leads, so that it brings no daily cycle
into the forecast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.grid import Elevation
from fields.windows import Batch
from pde_ops import Grid2D, StabilityError
from stationpde.baselines.inputs import StationInputs, horizon_of
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.model import BaseState, PDEBranch, Region, Scaling, Sites, StateStatistics, has_base
from stationpde.physics import clipped, to_observed, to_state

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["FieldForecast"]

_MOST_HALVINGS = 5


@dataclass(frozen=True, slots=True, eq=False)
class FieldForecast:
    """The lifted field, constant or stepped by the equations; ``base`` is the base state of the cells, if any."""

    config: Config
    inputs: StationInputs
    sites: Sites
    base: BaseState | None
    equations: PDEBranch | None

    @classmethod
    def of(cls, config: Config, source: WindowSource, *, equations: bool) -> FieldForecast:
        """Build the forecast on the grid of a configuration, with the climatology of the training split."""
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
        """Read the field at the stations, lead by lead."""
        issue = batch.issue_time
        last = self.inputs.filled(batch.history, issue)[:, -1:]
        station_state = to_state(last, self.sites.pressure) - self.sites.base(issue[:, None])
        field = self.sites.lifted(last, station_state)[0][:, 0]
        base = None
        if self.base is not None:
            base = self.base(issue).movedim(-1, -2).reshape(field.shape)
            field = field - base if self.sites.detrends else field
        states, in_si = [], Scaling.none()
        for _ in range(horizon_of(batch, self.config)):
            if self.equations is not None:
                field = self.equations(field, base, field[:, :0], in_si)
            states.append(self.sites.read(field) + self.sites.base(issue))
        return clipped(to_observed(torch.stack(states, dim=1)))


def _equations(config: Config, grid: Grid2D, halvings: int = _MOST_HALVINGS) -> PDEBranch:
    """Build the equations without a closure; with shorter sub-steps where the cells of a small network are small."""
    try:
        return PDEBranch(config.with_overrides(["model.closure=false", "pde.terms=[]"]), grid, 0).eval()
    except StabilityError:
        if halvings == 0:
            raise
        return _equations(config.with_overrides([f"pde.dt={config.pde.dt / 2!r}"]), grid, halvings - 1)
