r"""Distribution of one variable about its best estimate: location, scale, and a table of standardised quantiles.

.. math:: q_\tau = \hat y + m(x) + a_s + s(x) e^{b_s}\, Q_\tau(\text{lead}, \hat y)

:math:`m` and :math:`\ln s` are linear in the signals of the issue time, :math:`a_s, b_s` are effects of the station,
and :math:`Q` are quantiles of errors that the regressions have not seen, by groups of leads and best estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stationpde.uncertainty.design import Design, LeadGroups
from stationpde.uncertainty.levels import LEVELS, at_levels
from stationpde.uncertainty.signals import VARIABLES, Signals

__all__ = ["BOUNDS", "Marginal", "Spread"]

Array = np.ndarray[Any, Any]

BOUNDS: Mapping[str, tuple[float, float]] = {"rh": (0.0, 100.0), "ff": (0.0, np.inf), "p": (0.0, np.inf)}
"""Values that a variable can take, in display units; those of the others have no bounds."""
# A scale outside this range of the median of the sample is a regression gone astray.
_RANGE = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Centre and scale of the distributions of one variable, ``[batch, lead, station]``, and its standardised level."""

    centre: Array
    scale: Array
    level: Array


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """Fitted distribution of one variable.

    Attributes
    ----------
    design : columns of the regressions
    location, scale : coefficients of the mean error and of the logarithm of its size
    typical_scale : median scale of the sample
    bias, factor : effects of each station of the calibration: on the mean error, and on the logarithm of its size
    centres : standardised best estimates at which the table stands, increasing
    table : standardised quantiles ``[group of leads, centre, LEVELS]``
    """

    design: Design
    location: Array
    scale: Array
    typical_scale: float
    bias: Array
    factor: Array
    centres: Array
    table: Array

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.design.name

    def spread(self, signals: Signals, rows: Array, inflation: Array | None = None) -> Spread:
        """Return centre and scale of each distribution.

        Parameters
        ----------
        rows : number of each station in the calibration; −1 where it has none
        inflation : factor of the scale at each station
        """
        is_calibrated = rows >= 0
        bias = np.where(is_calibrated, self.bias[rows], 0.0) if len(self.bias) else np.zeros(len(rows))
        factor = np.where(is_calibrated, self.factor[rows], 0.0) if len(self.factor) else np.zeros(len(rows))
        forecast = signals.forecast[..., VARIABLES.index(self.name)]
        logarithm = self.design.scale(signals) @ self.scale
        typical = np.log(self.typical_scale)
        scale = np.exp(np.clip(logarithm, typical - np.log(_RANGE), typical + np.log(_RANGE)) + factor)
        if inflation is not None:
            scale = scale * inflation
        centre = forecast + self.design.location(signals) @ self.location + bias
        return Spread(centre, scale, self.design.level(signals))

    def quantiles(self, spread: Spread, levels: Array) -> Array:
        """Return quantiles ``[batch, lead, station, level]`` in display units, increasing and within the bounds."""
        table = at_levels(self.table, levels)
        group = self.design.groups.of(spread.level.shape[1])[None, :, None]
        upper = np.clip(np.searchsorted(self.centres, spread.level), 1, max(len(self.centres) - 1, 1))
        upper = np.minimum(upper, len(self.centres) - 1)
        lower = np.maximum(upper - 1, 0)
        gap = np.maximum(self.centres[upper] - self.centres[lower], 1e-9)
        share = np.clip((spread.level - self.centres[lower]) / gap, 0.0, 1.0)[..., None]
        standardised = table[group, lower] * (1.0 - share) + table[group, upper] * share
        values = spread.centre[..., None] + spread.scale[..., None] * standardised
        low, high = BOUNDS.get(self.name, (-np.inf, np.inf))
        # Sums and products of increasing numbers may differ in their last bit.
        increasing: Array = np.clip(np.maximum.accumulate(values, axis=-1), low, high)
        return increasing

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values."""
        arrays = {
            "centre": self.design.centre, "width": self.design.width, "location": self.location, "scale": self.scale,
            "bias": self.bias, "factor": self.factor, "centres": self.centres, "table": self.table,
        }  # fmt: skip
        lists = {name: np.asarray(array, np.float64).tolist() for name, array in arrays.items()}
        return {
            "name": self.name, "horizon": self.design.groups.horizon, "has_season": self.design.has_season,
            "typical_scale": self.typical_scale, **lists,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], stations: int) -> Marginal:
        """Read what `to_dict` returns.

        Raises
        ------
        ValueError, KeyError, TypeError
            If a shape, name or number is none that a calibration writes.
        """
        names = ("centre", "width", "location", "scale", "bias", "factor", "centres", "table")
        arrays = {name: np.asarray(content[name], np.float64) for name in names}
        groups = LeadGroups(int(content["horizon"]))
        name, typical, has_season = str(content["name"]), float(content["typical_scale"]), bool(content["has_season"])
        located = 4 if name == "ff" else 3
        spread = len(arrays["centre"]) - located
        sizes = {
            "width": (located + spread,), "location": (5 + groups.count + located,),
            "scale": (5 + groups.count + spread + 2 * has_season,), "bias": (stations,), "factor": (stations,),
            "table": (groups.count, len(arrays["centres"]), len(LEVELS)),
        }  # fmt: skip
        if name not in VARIABLES or spread not in (7, 8) or groups.horizon < 1 or not len(arrays["centres"]):
            raise ValueError(f"`{name}` is no variable that is calibrated so")
        for key, shape in sizes.items():
            if arrays[key].shape != shape:
                raise ValueError(f"`{key}` of {name} has the shape {arrays[key].shape}, not {shape}")
        if not typical > 0 or (arrays["width"] <= 0).any() or (np.diff(arrays["centres"]) < 0).any():
            raise ValueError(f"a scale of {name} is not positive, or its levels do not increase")
        if (np.diff(arrays["table"], axis=-1) < 0).any() or not all(np.isfinite(a).all() for a in arrays.values()):
            raise ValueError(f"the quantiles of {name} do not increase, or are not finite")
        design = Design(name, groups, arrays["centre"], arrays["width"], has_season)
        fitted = {key: arrays[key] for key in ("location", "scale", "bias", "factor", "centres", "table")}
        return cls(design=design, typical_scale=typical, **fitted)
