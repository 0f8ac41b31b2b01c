"""Analysis: from an observed history to the initial field and what stations contribute beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.config import Config
from stationpde.model.base_state import BaseState
from stationpde.model.scaling import Scaling
from stationpde.model.sites import Sites
from stationpde.physics import to_state

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Analysis", "LiftedHistory", "lift_history"]


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Encoded history: initial field, station departures, head memory.

    Attributes
    ----------
    field : initial field, scaled
    departures : of the stations from the lifted field, SI, zero where nothing was observed; those of a
        `LiftedHistory` are from the base state
    memory : first layer of the station head for this history; None without a head
    guided : what is mixed with the forecast of the field, observed variables, SI: first guesses, then simple
        forecasts; None in training, and where there are neither
    tendencies : changes of the lifted field, scaled, for the term of the extended equations that is called ``memory``
    lifted : the history itself, where a residual is computed of it
    """

    field: Float[Tensor, "batch channel y x"]
    departures: Float[Tensor, "batch time station channel"]
    memory: Float[Tensor, "batch station hidden"] | None = None
    guided: Float[Tensor, "guess batch lead station channel"] | None = None
    tendencies: Float[Tensor, "batch memory y x"] | None = None
    lifted: LiftedHistory | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that there are, by name, ``field`` first."""
        named = {
            "field": self.field,
            "departures": self.departures,
            "memory": self.memory,
            "guided": self.guided,
            "tendencies": self.tendencies,
        }
        return {name: tensor for name, tensor in named.items() if tensor is not None}


@dataclass(frozen=True, slots=True, eq=False)
class LiftedHistory:
    """A history at stations and lifted onto the grid.

    Attributes
    ----------
    times : of the steps, seconds since 1970, UTC
    departures : of the stations from their base state, SI; NaN where nothing was observed (those of an `Analysis` are
        from the lifted field)
    fields : of the departures, scaled, without gaps
    coverage : share of the network behind each value of the fields
    """

    times: Int64[Tensor, "batch time"]
    departures: Float[Tensor, "batch time station channel"]
    fields: Float[Tensor, "batch time channel y x"]
    coverage: Float[Tensor, "batch time channel y x"]


def lift_history(
    history: Float[Tensor, "batch time station channel"],
    issue_time: Int64[Tensor, " batch"],
    sites: Sites,
    base: BaseState | None,
    scaling: Scaling,
    config: Config,
) -> LiftedHistory:
    """Subtract the base state from a history and lift it onto the grid.

    Parameters
    ----------
    history : observed variables, SI; NaN = missing
    issue_time : time of the last step, seconds since 1970, UTC
    sites : the stations
    base : base state of the cells; None where fields are full states
    """
    back = torch.arange(1 - history.shape[1], 1, device=issue_time.device)
    times = issue_time[:, None] + back * config.data.step_seconds
    departures = to_state(history, sites.pressure) - sites.base(times)
    fields, coverage = sites.lifted(history, departures)
    if sites.detrends and base is not None:
        # The detrended lift gives full states.
        fields = fields - base.on_grid(times, fields.shape)
    return LiftedHistory(times, departures, torch.nan_to_num(scaling(fields), nan=0.0), coverage)
