"""Predictors of extra variables: the forecast of the state at the station, its last report, the day, and own history.

All are departures from the climatology in standard deviations, without gaps: what was not reported is as usual.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields.times import DAY
from stationpde.physics import RH, THETA, WIND, P, to_observed, to_state

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

    from stationpde.model import StationPDEModel

__all__ = ["OWN", "SHARED", "own_predictors", "shared_predictors"]

Array = np.ndarray[Any, Any]

SHARED = 22
"""Number of predictors that all variables share: constant, state, and products of what gusts and clouds follow."""
OWN = 3
"""Number of predictors from a variable's history: its last value, that of the day before, the mean of a day."""
_LARGEST = 6.0
_WIND_SCALE, _HUMIDITY_SCALE = 2.0, 0.2


@torch.inference_mode()
def shared_predictors(
    model: StationPDEModel,
    forecast: Float[Tensor, "batch lead station channel"],
    history: Float[Tensor, "batch time station channel"],
    issue_time: Int64[Tensor, " batch"],
) -> Array:
    """Return predictors ``[batch, lead, station, SHARED]`` from a forecast of the state at the model's stations, SI."""
    sites, step = model.sites, model.config.data.step_seconds
    ahead = step * torch.arange(1, forecast.shape[1] + 1, device=issue_time.device)
    valid = issue_time[:, None] + ahead
    climate = sites.climatology(valid)
    state = (to_state(forecast, sites.pressure) - climate) / sites.scale
    last = (to_state(history[:, -1], sites.pressure) - sites.climatology(issue_time)) / sites.scale
    now = torch.nan_to_num(last)[:, None].expand_as(state)
    speed = (forecast[..., WIND].norm(dim=-1) - climate[..., WIND].norm(dim=-1)) / _WIND_SCALE
    humidity = (forecast[..., RH] - to_observed(climate)[..., RH].clamp(0.0, 1.0)) / _HUMIDITY_SCALE
    # Whole seconds first: float32 does not hold those since 1970.
    lon = torch.as_tensor(np.deg2rad(sites.stations.lon), dtype=state.dtype, device=state.device)
    clock = torch.remainder(valid, DAY).to(state.dtype)[..., None] * (2.0 * math.pi / DAY) + lon
    waves = torch.stack([clock.sin(), clock.cos()], dim=-1)
    driving = torch.stack([state[..., THETA], humidity, speed], dim=-1)
    products = (driving[..., :, None] * waves[..., None, :]).flatten(-2)
    columns = [
        torch.ones_like(speed)[..., None], state, now, speed[..., None], humidity[..., None],
        (state[..., P] - now[..., P])[..., None], (humidity * humidity)[..., None], (speed * speed)[..., None],
        products,
    ]  # fmt: skip
    whole: Array = torch.cat(columns, dim=-1).clamp(-_LARGEST, _LARGEST).cpu().numpy().astype(np.float32)
    return whole


def own_predictors(departures: Array, leads: int, step_seconds: int) -> Array:
    """Return predictors ``[batch, lead, station, OWN]`` from a variable's history ``[batch, time, station]``.

    ``departures`` are from the climatology, in standard deviations, NaN where nothing was observed.
    """
    steps, day = departures.shape[1], max(1, round(DAY / step_seconds))
    filled = np.nan_to_num(departures)
    recent = departures[:, -min(day, steps) :]
    count = np.isfinite(recent).sum(axis=1)
    mean = np.where(np.isfinite(recent), recent, 0.0).sum(axis=1) / np.maximum(count, 1)
    before = []
    for lead in range(1, leads + 1):
        back = -lead % day  # steps from the issue back to the same hour of an earlier day
        before.append(filled[:, steps - 1 - back] if back < steps else np.zeros_like(filled[:, 0]))
    shape = (departures.shape[0], leads, departures.shape[2])
    last = np.broadcast_to(filled[:, -1:], shape)
    columns = [last, np.stack(before, axis=1), np.broadcast_to(mean[:, None], shape)]
    whole: Array = np.clip(np.stack(columns, axis=-1), -_LARGEST, _LARGEST).astype(np.float32)
    return whole
