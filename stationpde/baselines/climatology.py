"""Climatology: the mean at a station, at an hour of the day, in a month."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from fields.windows import Batch, Climatology, ClimatologyTable
from stationpde.baselines.inputs import horizon_of, valid_times
from stationpde.baselines.registry import Baseline
from stationpde.config import Config
from stationpde.data import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["BASELINE", "ClimatologyForecast"]


@dataclass(frozen=True, slots=True, eq=False)
class ClimatologyForecast:
    """Training means by station, time of day and month; a cell with few values is shrunk to the network."""

    config: Config
    table: ClimatologyTable

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the climatology at the valid times; the history is not used."""
        values: Tensor = self.table(valid_times(batch.issue_time, horizon_of(batch, self.config), batch.step_seconds))
        return values


def make(config: Config, source: WindowSource) -> ClimatologyForecast:
    """Fit the climatology to the training split of a record."""
    fitted = Climatology.of(source.series, source.windows.split, by_month=True)
    return ClimatologyForecast(config, ClimatologyTable(fitted))


BASELINE = Baseline("climatology", "Climatology", "mean by station, hour and month", "closed_form", make)
