r"""Predictors of the guide: history, surroundings, and the products that physics suggests.

All inputs are anomalies in the networks' scaled units. The products let a linear fit differ by the hour of the day
(heating), by regime (wind, pressure gradient as the wind aloft, dryness as clearness of the sky) and by place:
*regime-dependent relaxation* of anomalies, and *insolation times cloud proxy*, term by term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.windows import annual_harmonics
from stationpde.physics import (
    DAY,
    PLACES,
    POSITION_FEATURES,
    THETA,
    WIND,
    P,
    Q,
    View,
    differences_across,
    ring,
    steps_back,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["GROUPS", "GuidePredictors", "Predictors", "day_waves"]

GROUPS = ("hour", "regime", "cloud", "place")
# Clips regimes far outside the range of the fit, so that products stay bounded.
_LARGEST = 4.0
_STATION_STEPS = 16
_FIELD_CHANGES_H = (3, 6, 12, 24)
# Rings of the surroundings: near, middle, far.
_MIDDLE_RING = 1
_NEAR_AND_MIDDLE, _MIDDLE_AND_FAR = slice(None, ring(_MIDDLE_RING).stop), slice(ring(_MIDDLE_RING).start, None)
_FIRST_HARMONIC = slice(0, 2)


@dataclass(frozen=True, slots=True, eq=False)
class GuidePredictors:
    """Predictors of windows, and the reference of the guesses.

    Attributes
    ----------
    pooled : predictors of the fit that all stations share
    local : predictors of the fit of each station
    reference : observed variables that guesses depart from, SI
    """

    pooled: Float[Tensor, "batch station predictor"]
    local: Float[Tensor, "batch station local"]
    reference: Float[Tensor, "batch lead station channel"]


class Predictors:
    """Computation of predictors from a history at stations and the field around them.

    Parameters
    ----------
    step_seconds : cadence of the model
    history : number of steps in a history
    groups : products that are used, of `GROUPS`
    season : whether to add the season, alone and in products with the day
    """

    def __init__(self, step_seconds: int, history: int, groups: tuple[str, ...] = GROUPS, season: bool = False) -> None:
        self.groups, self.season = groups, season
        self._back = {hours: steps_back(hours, step_seconds, history) for hours in (3, 6, 9, 12, 15, 18, 21, 24)}
        self._day = max(1, min(history, round(DAY / step_seconds)))
        every = max(1, history // _STATION_STEPS)
        self._station_steps = sorted({*range(0, history, every), *range(min(3, history))})

    def plain_count(self, channels: int) -> int:
        """Count the shared predictors, all first, that are no products: constant, history, field and surroundings."""
        return 1 + channels * (len(self._station_steps) + 1 + len(_FIELD_CHANGES_H) + 3 * PLACES)

    def counts(self, channels: int, history: int) -> tuple[int, int]:
        """Count the predictors of the shared fit and of the fit of each station, from an example."""
        departures, around = torch.zeros(1, history, 1, channels), torch.zeros(1, 1, PLACES, channels)
        view, time = View(departures, around, around, around), torch.zeros(1, dtype=torch.long)
        pooled = self.pooled(departures, view, time, torch.zeros(1, POSITION_FEATURES))
        return pooled.shape[-1], self.local(departures, view, time).shape[-1]

    def pooled(
        self,
        departures: Float[Tensor, "batch time station channel"],
        view: View,
        time: Int64[Tensor, " batch"],
        place: Float[Tensor, "station 3"],
    ) -> Float[Tensor, "batch station predictor"]:
        """Return predictors of the fit that all stations share.

        Parameters
        ----------
        departures : scaled departures at the stations, without gaps
        view : the field at the stations and around them
        time : issue times, seconds since 1970, UTC
        place : row and column in the region and altitude
        """
        now, field, last = departures[:, -1], view.centre[:, -1], departures.shape[1] - 1
        core = [now, field, now - self._earlier(departures, 3), self._earlier(departures, 21)]
        columns = [torch.ones_like(now[..., :1]), *(departures[:, last - step] for step in self._station_steps), field]
        columns += [field - self._earlier(view.centre, hours) for hours in _FIELD_CHANGES_H]
        columns += [view.around.flatten(-2), view.change_3h.flatten(-2), view.change_12h.flatten(-2)]
        hour, regime = _hours(time, now), self._regime(view)
        if "hour" in self.groups:
            near = view.around[..., _NEAR_AND_MIDDLE, :].flatten(-2)
            more = [near, now - self._earlier(departures, 6), self._earlier(departures, 9)]
            columns += [_product(torch.cat(core, -1), hour)]
            columns += [_product(torch.cat([*more, self._earlier(departures, 15)], -1), hour[..., _FIRST_HARMONIC])]
        if "regime" in self.groups:
            columns += [_product(torch.cat([now, field], -1), regime), _product(_slope(view), regime)]
            columns += [torch.cat([now, field], -1).clamp(-_LARGEST, _LARGEST).square()]
        if "cloud" in self.groups:
            columns += self._cloud(departures, hour, regime)
        if "place" in self.groups:
            there = place.expand(now.shape[0], *place.shape)
            around = view.around[..., ring(_MIDDLE_RING), :].flatten(-2)
            columns += [_product(torch.cat([now, field, around], -1), there)]
        if self.season:
            columns.append(_seasonal(time, hour))
        return torch.cat(columns, dim=-1)

    def origins(self, channels: int) -> list[frozenset[str]]:
        """List the ingredients of each shared predictor, in the order of `pooled`.

        Names are ``station`` (history of the station), ``field`` (the lifted field at the station), ``surroundings``
        (the field at a distance), ``tendency`` (a change of either field in time) and those of the groups.
        """
        station, field = [{"station"}] * channels, [{"field"}] * channels
        around, day = {"field", "surroundings"}, [{"hour"}] * 4
        regime = [{"field"}, {"field"}, around, around, {"field"}]  # wind, slope of pressure, dryness
        origins: list[set[str]] = [set(), *station * len(self._station_steps), *field]
        origins += [{"field", "tendency"}] * (channels * len(_FIELD_CHANGES_H))
        origins += [around] * (PLACES * channels) + [around | {"tendency"}] * (2 * PLACES * channels)

        def add(factors: list[set[str]], others: list[set[str]], name: str) -> None:
            origins.extend(factor | other | {name} for factor in factors for other in others)

        if "hour" in self.groups:
            add(station + field + station + station, day, "hour")
            add([around] * (8 * channels) + station * 3, day[_FIRST_HARMONIC], "hour")
        if "regime" in self.groups:
            add(station + field + [around] * (2 * channels), regime, "regime")
            add(station + field, [set()], "regime")
        if "cloud" in self.groups:
            mean = [{"station"}] * (1 + channels)
            add(mean, [set()], "cloud")
            add(mean, day, "cloud")
            warmth = [one | other for one in ({"station"}, {"station"}, {"field"}) for other in regime]
            add(warmth, day[_FIRST_HARMONIC], "cloud")
        if "place" in self.groups:
            add(station + field + [around] * (4 * channels), [set()] * 3, "place")
        if self.season:
            add([set(), *day], [set()] * 2, "season")
        return [frozenset(names) for names in origins]

    def local(
        self, departures: Float[Tensor, "batch time station channel"], view: View, time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch station predictor"]:
        """Return predictors of the fit of each station: fewer, as a station has fewer observations than all."""
        now, field = departures[:, -1], view.centre[:, -1]
        hour = _hours(time, now)
        columns = [torch.ones_like(now[..., :1]), hour, now]
        columns += [self._earlier(departures, hours) for hours in (3, 6, 9, 15, 18, 21)]
        change_12h = view.change_12h[..., _MIDDLE_AND_FAR, :].flatten(-2)
        columns += [field, self._earlier(view.centre, 6), view.around.flatten(-2), change_12h]
        columns.append(_product(torch.cat([now, field, _slope(view)], -1), hour))
        if self.season:
            columns.append(_seasonal(time, hour))
        return torch.cat(columns, dim=-1)

    def _earlier(self, series: Tensor, hours: int) -> Tensor:
        return series[:, series.shape[1] - 1 - self._back[hours]]

    def _regime(self, view: View) -> Float[Tensor, "batch station 5"]:
        """Return wind, pressure slope at the middle ring (the geostrophic wind, rotated) and dryness of the air."""
        field = view.centre[:, -1]
        slope = torch.stack([across[..., P] for across in differences_across(view.around, _MIDDLE_RING)], dim=-1)
        dryness = (field[..., THETA] - field[..., Q])[..., None]
        return torch.cat([field[..., WIND], slope, dryness], dim=-1).clamp(-_LARGEST, _LARGEST)

    def _cloud(self, departures: Tensor, hour: Tensor, regime: Tensor) -> list[Tensor]:
        """Return products with proxies of cloud.

        These are the range of temperature and the mean state of the last day, and warmth and dryness in each regime,
        by the hour.
        """
        day = departures[:, -self._day :]
        swing = (day[..., THETA].amax(dim=1) - day[..., THETA].amin(dim=1))[..., None]
        mean = torch.cat([swing, day.mean(dim=1)], dim=-1)
        warmth = torch.cat([departures[:, -1, :, THETA:], regime[..., -1:]], dim=-1)
        return [mean, _product(mean, hour), _product(_product(warmth, regime), hour[..., _FIRST_HARMONIC])]


def day_waves(time: Int64[Tensor, " row"], dtype: torch.dtype) -> Float[Tensor, "row 4"]:
    """Return the first two harmonics of the day."""
    day = torch.remainder(time, int(DAY)).to(dtype) * (2.0 * math.pi / DAY)
    return torch.stack([day.sin(), day.cos(), (2.0 * day).sin(), (2.0 * day).cos()], dim=-1)


def _seasonal(time: Tensor, hour: Tensor) -> Float[Tensor, "batch station product"]:
    """Return the first harmonic of the year, alone and times the harmonics of the day."""
    year = torch.stack(annual_harmonics(time, 1, False, torch), dim=-1).to(hour.dtype)
    year = year[:, None].expand(-1, hour.shape[1], -1)
    return _product(torch.cat([torch.ones_like(hour[..., :1]), hour], -1), year)


def _hours(time: Tensor, like: Tensor) -> Float[Tensor, "batch station 4"]:
    return day_waves(time, like.dtype)[:, None, :].expand(-1, like.shape[1], -1)


def _slope(view: View) -> Tensor:
    """Return the differences of all fields across the middle ring, east minus west and north minus south."""
    return torch.cat(differences_across(view.around, _MIDDLE_RING), dim=-1)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return (a[..., :, None] * b[..., None, :]).flatten(-2)
