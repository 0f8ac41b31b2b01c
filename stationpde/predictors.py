r"""What the guide is fitted on: history, surroundings, and the products that physics suggests.

All inputs are anomalies in the networks' scaled units. The products let a linear fit be different by the hour of the
day (heating), by regime (wind, pressure gradient as the wind aloft, dryness as clearness of the sky) and by place:
*regime-dependent relaxation* of anomalies, and *insolation times cloud proxy*, term by term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.conditions import DAY
from stationpde.surroundings import PLACES, View, steps_back

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["GROUPS", "Given", "Predictors", "day_waves"]

GROUPS = ("hour", "regime", "cloud", "place")
# A regime far out of the range it was fitted on must not run away with a product.
_LARGEST = 4.0
_OWN_STEPS = 16
_FIELD_CHANGES_H = (3, 6, 12, 24)
_P, _THETA, _Q = 2, 3, 4


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Predictors of windows, and the level that guesses start from: observed departures of the last day, SI."""

    pooled: Float[Tensor, "batch station predictor"]
    local: Float[Tensor, "batch station own"]
    level: Float[Tensor, "batch station channel"] | None = None


class Predictors:
    """From a history at stations and the field around them to predictors.

    Parameters
    ----------
    step_seconds, history : of the model
    groups : products that are used, of `GROUPS`
    """

    def __init__(self, step_seconds: int, history: int, groups: tuple[str, ...] = GROUPS) -> None:
        self.groups = groups
        self._back = {hours: steps_back(hours, step_seconds, history) for hours in (3, 6, 9, 12, 15, 18, 21, 24)}
        self._day = max(1, min(history, round(DAY / step_seconds)))
        every = max(1, history // _OWN_STEPS)
        self._own = sorted({*range(0, history, every), *range(min(3, history))})

    def plain_count(self, channels: int) -> int:
        """How many of the first shared predictors are no products: the constant, history, field and surroundings."""
        return 1 + channels * (len(self._own) + 1 + len(_FIELD_CHANGES_H) + 3 * PLACES)

    def pooled(
        self,
        own: Float[Tensor, "batch time station channel"],
        view: View,
        time: Int64[Tensor, " batch"],
        place: Float[Tensor, "station 3"],
    ) -> Float[Tensor, "batch station predictor"]:
        """Predictors of the fit that all stations share; ``own`` has no gaps, ``place`` is position and altitude."""
        now, field, last = own[:, -1], view.centre[:, -1], own.shape[1] - 1
        core = [now, field, now - self._then(own, 3), self._then(own, 21)]
        found = [torch.ones_like(now[..., :1]), *(own[:, last - step] for step in self._own), field]
        found += [field - self._then(view.centre, hours) for hours in _FIELD_CHANGES_H]
        found += [view.around.flatten(-2), view.change.flatten(-2), view.drift.flatten(-2)]
        hour, regime = _hours(time, now), self._regime(view)
        if "hour" in self.groups:
            more = [view.around[..., :8, :].flatten(-2), now - self._then(own, 6), self._then(own, 9)]
            found += [_product(torch.cat(core, -1), hour)]
            found += [_product(torch.cat([*more, self._then(own, 15)], -1), hour[..., :2])]
        if "regime" in self.groups:
            found += [_product(torch.cat([now, field], -1), regime), _product(_slope(view), regime)]
            found += [torch.cat([now, field], -1).clamp(-_LARGEST, _LARGEST).square()]
        if "cloud" in self.groups:
            found += self._cloud(own, hour, regime)
        if "place" in self.groups:
            there = place.expand(now.shape[0], *place.shape)
            found += [_product(torch.cat([now, field, view.around[..., 4:8, :].flatten(-2)], -1), there)]
        return torch.cat(found, dim=-1)

    def origins(self, channels: int) -> list[frozenset[str]]:
        """What each shared predictor is made of, in the order of `pooled`.

        Names are ``station`` (its own history), ``field`` (the lifted field at the station), ``surroundings`` (the
        field at a distance), ``tendency`` (a change of either field in time) and those of the groups.
        """
        own, field = [{"station"}] * channels, [{"field"}] * channels
        around, day = {"field", "surroundings"}, [{"hour"}] * 4
        regime = [{"field"}, {"field"}, around, around, {"field"}]  # wind, slope of pressure, dryness
        made: list[set[str]] = [set(), *own * len(self._own), *field]
        made += [{"field", "tendency"}] * (channels * len(_FIELD_CHANGES_H))
        made += [around] * (PLACES * channels) + [around | {"tendency"}] * (2 * PLACES * channels)

        def add(some: list[set[str]], others: list[set[str]], name: str) -> None:
            made.extend(one | other | {name} for one in some for other in others)

        if "hour" in self.groups:
            add(own + field + own + own, day, "hour")
            add([around] * (8 * channels) + own * 3, day[:2], "hour")
        if "regime" in self.groups:
            add(own + field + [around] * (2 * channels), regime, "regime")
            add(own + field, [set()], "regime")
        if "cloud" in self.groups:
            mean = [{"station"}] * (1 + channels)
            add(mean, [set()], "cloud")
            add(mean, day, "cloud")
            warmth = [one | other for one in ({"station"}, {"station"}, {"field"}) for other in regime]
            add(warmth, day[:2], "cloud")
        if "place" in self.groups:
            add(own + field + [around] * (4 * channels), [set()] * 3, "place")
        return [frozenset(names) for names in made]

    def local(
        self, own: Float[Tensor, "batch time station channel"], view: View, time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch station predictor"]:
        """Predictors of what is fitted for each station on its own: fewer, as there are fewer observations."""
        now, field = own[:, -1], view.centre[:, -1]
        hour = _hours(time, now)
        found = [torch.ones_like(now[..., :1]), hour, now]
        found += [self._then(own, hours) for hours in (3, 6, 9, 15, 18, 21)]
        found += [field, self._then(view.centre, 6), view.around.flatten(-2), view.drift[..., 4:, :].flatten(-2)]
        return torch.cat([*found, _product(torch.cat([now, field, _slope(view)], -1), hour)], dim=-1)

    def _then(self, series: Tensor, hours: int) -> Tensor:
        return series[:, series.shape[1] - 1 - self._back[hours]]

    def _regime(self, view: View) -> Float[Tensor, "batch station 5"]:
        """Wind, pressure slope at the middle ring (the geostrophic wind, turned) and dryness of the air."""
        field = view.centre[:, -1]
        around = view.around[..., _P]
        slope = torch.stack([around[..., 4] - around[..., 5], around[..., 6] - around[..., 7]], dim=-1)
        dryness = (field[..., _THETA] - field[..., _Q])[..., None]
        return torch.cat([field[..., :2], slope, dryness], dim=-1).clamp(-_LARGEST, _LARGEST)

    def _cloud(self, own: Tensor, hour: Tensor, regime: Tensor) -> list[Tensor]:
        """Yesterday's range of temperature and mean state, and the warmth and dryness of each regime, by the hour."""
        day = own[:, -self._day :]
        swing = (day[..., _THETA].amax(dim=1) - day[..., _THETA].amin(dim=1))[..., None]
        mean = torch.cat([swing, day.mean(dim=1)], dim=-1)
        warmth = torch.cat([own[:, -1, :, _THETA:], regime[..., -1:]], dim=-1)
        return [mean, _product(mean, hour), _product(_product(warmth, regime), hour[..., :2])]


def day_waves(time: Int64[Tensor, " row"], dtype: torch.dtype) -> Float[Tensor, "row 4"]:
    """First two harmonics of the day; the time of the year is left out, as one year does not hold a season twice."""
    day = torch.remainder(time, int(DAY)).to(dtype) * (2.0 * math.pi / DAY)
    return torch.stack([day.sin(), day.cos(), (2.0 * day).sin(), (2.0 * day).cos()], dim=-1)


def _hours(time: Tensor, like: Tensor) -> Float[Tensor, "batch station 4"]:
    return day_waves(time, like.dtype)[:, None, :].expand(-1, like.shape[1], -1)


def _slope(view: View) -> Tensor:
    """Slopes of all fields across the middle ring, eastwards and northwards."""
    around = view.around
    return torch.cat([around[..., 4, :] - around[..., 5, :], around[..., 6, :] - around[..., 7, :]], dim=-1)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return (a[..., :, None] * b[..., None, :]).flatten(-2)
