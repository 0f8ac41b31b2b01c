"""Residual of the equations on forecasts at stations, which are lifted as the histories of the model are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fields.grid import Elevation
from fields.windows import Batch, Split, StationSeries
from stationpde.config import Config
from stationpde.model.analysis import lift_history
from stationpde.model.climate import StateStatistics
from stationpde.model.learner import Reducer
from stationpde.model.losses import scored_state
from stationpde.model.pde_branch import has_base, residual_of
from stationpde.model.region import Region
from stationpde.model.residual import Course, course_of
from stationpde.model.scaling import Scaling
from stationpde.model.sites import Sites

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["StationResidual"]


class StationResidual(nn.Module):
    """Residual of the equations of a configuration for forecasters that have no field of their own in SI.

    Parameters
    ----------
    config : equations, grid and lift
    series, split : stations, and the record whose training split gives climatology and scales
    """

    def __init__(self, config: Config, series: StationSeries, split: Split) -> None:
        super().__init__()
        self.config = config
        statistics = StateStatistics.of(series, split, config)
        elevation = None if config.grid.dem is None else Elevation.open(config.grid.dem)
        region = Region.around(series.stations, config, elevation)
        self.sites = Sites(series.stations, region, statistics, config)
        self.base = region.cell_base(statistics, config) if has_base(config) else None
        self.scaling = Scaling.of(config, statistics)
        self.residual = residual_of(config, region.pde_grid, self.scaling, region.grid.lon)

    def course(
        self, observed: Float[Tensor, "batch time station channel"], last_time: Int64[Tensor, " batch"]
    ) -> Course:
        """Lift values at stations, SI, whose last time is ``last_time`` (seconds since 1970, UTC)."""
        lifted = lift_history(observed, last_time, self.sites, self.base, self.scaling, self.config)
        return course_of(lifted.fields, lifted.times, self.scaling, self.base, lifted.coverage)

    def forward(
        self, forecast: Float[Tensor, "batch lead station channel"], last: Float[Tensor, "batch station channel"],
        batch: Batch, reducer: Reducer,
    ) -> Tensor:  # fmt: skip
        """Return the residual of a forecast, and that of what was observed, which trains its terms; their sum.

        Parameters
        ----------
        forecast : SI
        last : values at the issue time, SI, without gaps
        """
        ahead = batch.issue_time + forecast.shape[1] * self.config.data.step_seconds
        courses = (
            self.course(torch.cat([last[:, None], forecast], dim=1), ahead),
            self.course(batch.history, batch.issue_time),
        )
        return torch.stack(self.residual.loss(*courses, scored_state(self.config.data, forecast), reducer)).sum()

    def physics(self) -> dict[str, Any]:
        """Return the learned coefficients of the terms with units."""
        return self.residual.physics()
