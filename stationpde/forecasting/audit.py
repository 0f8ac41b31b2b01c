"""The physics audit of a forecast: its figures before clipping, and the stations that it rests on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from stationpde.physics import PRESSURE_RANGE, RH, TEMPERATURE_RANGE, THETA, WIND, P, Q, T

if TYPE_CHECKING:
    from stationpde.data import HistoryCoverage
    from stationpde.model import Forecast, StationPDEModel

__all__ = ["Audit", "audit", "clamped_share", "combined"]


# Figures of which the smallest is the worst.
_LEAST = ("courant_limit", "rh_low", "network_present", "history_present", "history_values")


@dataclass(frozen=True, slots=True)
class Audit:
    """Figures of one forecast; shares are of all values at stations and leads.

    Attributes
    ----------
    courant : largest Courant number of a stable part of a sub-step, from the wind of the forecast fields; 0 without
        the physical branch
    courant_limit : largest stable Courant number of the scheme; the advecting wind is limited to it
    wind_limited : share of grid values whose wind exceeds ``pde.max_wind``, where transport is slowed down
    rh_low, rh_high : range of relative humidity before it is clipped to 0 to 1
    rh_clipped : share that was clipped
    q_negative, q_negative_field : share of specific humidity below zero, at stations and on the grid
    clamped : share of temperatures and pressures outside what Ψ accepts
    finite : whether every number is finite
    network_present : share of the stations of training that report at the issue time
    present, stations, unknown, outside : number of stations that report, that are forecast, that were not in
        training, and that lie outside the grid
    rejected : number of observed values outside the physical range, treated as missing
    history_present : share of the history that was observed, of the stations that report at the issue time
    history_values : share of the history that was observed, of the whole trained network
    moments : number of moments in the history
    """

    courant: float
    courant_limit: float
    wind_limited: float
    rh_low: float
    rh_high: float
    rh_clipped: float
    q_negative: float
    q_negative_field: float
    clamped: float
    finite: bool
    network_present: float
    present: int
    stations: int
    unknown: int
    outside: int
    rejected: int = 0
    history_present: float = 1.0
    history_values: float = 1.0
    moments: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, for machines."""
        return asdict(self)

    def attributes(self) -> dict[str, Any]:
        """Return the attribute of a file: one JSON text that any reader can parse."""
        return {"physics_audit": json.dumps(self.to_dict())}

    def lines(self) -> list[str]:
        """Format the figures as lines of text."""
        return [
            f"Courant number  {self.courant:.2f} (limit {self.courant_limit:.2f})"
            + (f", wind limited in {self.wind_limited:.1%} of cells" if self.wind_limited else ""),
            f"humidity        RH {100 * self.rh_low:.1f} to {100 * self.rh_high:.1f} % before clipping "
            f"({self.rh_clipped:.1%} clipped), q >= 0 in {1 - self.q_negative:.1%}",
            f"clamped         {self.clamped:.1%} of temperatures and pressures",
            f"history         {self.history_present:.0%} of {self.moments} moments observed where stations report now, "
            f"{self.history_values:.0%} of the trained network's",
            f"network         {self.network_present:.0%} of the trained stations report; "
            f"{self.stations} forecast, {self.unknown} new, {self.outside} outside the grid"
            + (f", {self.rejected} impossible values dropped" if self.rejected else ""),
        ]


def audit(
    model: StationPDEModel, forecast: Forecast, present: np.ndarray[Any, Any], rejected: int, coverage: HistoryCoverage
) -> Audit:
    """Audit a forecast of one window that was made with ``keep_fields``, from a history of some coverage."""
    assert forecast.fields is not None
    observed, state, fields = forecast.observed, forecast.state, forecast.fields
    humidity, q = observed[..., RH], state[..., Q]
    is_trained = model.sites.number.cpu().numpy() >= 0
    theta = state[..., THETA]
    courant, limit, limited = _courant(model, fields)
    return Audit(
        courant=courant,
        courant_limit=limit,
        wind_limited=limited,
        rh_low=float(humidity.min()),
        rh_high=float(humidity.max()),
        rh_clipped=_share((humidity < 0.0) | (humidity > 1.0)),
        q_negative=_share(q < 0.0),
        q_negative_field=_share(fields[:, :, Q] < 0.0),
        clamped=clamped_share(forecast),
        finite=bool(torch.isfinite(observed).all() and torch.isfinite(theta).all() and torch.isfinite(fields).all()),
        network_present=float(np.count_nonzero(present & is_trained)) / max(1, len(model.statistics.stations)),
        present=int(np.count_nonzero(present)),
        stations=len(model.sites.stations),
        unknown=int(np.count_nonzero(~is_trained)),
        outside=int((~model.sites.inside).sum()),
        rejected=rejected,
        history_present=coverage.present,
        history_values=coverage.values,
        moments=coverage.moments,
    )


def clamped_share(forecast: Forecast) -> float:
    """Return the share of temperatures and pressures outside what Ψ accepts."""
    temperature, p = forecast.observed[..., T], forecast.state[..., P]
    return _share(_outside(temperature, TEMPERATURE_RANGE, closed=True) | _outside(p, PRESSURE_RANGE))


def combined(audits: Sequence[Audit]) -> Audit:
    """Combine the audits of an ensemble: the worst of each figure; stations and network are the same for all."""
    first = audits[0]
    worst = {
        name: max(getattr(a, name) for a in audits)
        for name in ("courant", "wind_limited", "rh_high", "rh_clipped", "q_negative", "q_negative_field", "clamped")
    }
    least = {name: min(getattr(a, name) for a in audits) for name in _LEAST}
    unknown, outside = (max(getattr(a, name) for a in audits) for name in ("unknown", "outside"))
    return Audit(
        **worst, **least, finite=all(a.finite for a in audits), present=first.present, stations=first.stations,
        unknown=unknown, outside=outside, rejected=first.rejected, moments=max(a.moments for a in audits),
    )  # fmt: skip


def _courant(model: StationPDEModel, fields: torch.Tensor) -> tuple[float, float, float]:
    """Return the Courant number of the stepped parts, its limit, and the share of winds above ``pde.max_wind``."""
    branch = model.pde_branch
    if branch is None:
        return 0.0, 1.0, 0.0
    grid, pde = model.region.grid, model.config.pde
    limits = branch.tendency.limits
    parts = limits.substeps if limits is not None else 1
    speed = fields[:, :, WIND].norm(dim=2)
    dx = torch.as_tensor(grid.dx, dtype=speed.dtype, device=speed.device)[:, None]
    number = speed * (pde.dt / parts) * (dx.pow(-2) + grid.dy**-2).sqrt()
    return float(number.max()), 1.0, _share(speed > pde.max_wind)


def _outside(values: torch.Tensor, span: tuple[float, float], closed: bool = False) -> torch.Tensor:
    """Mark the values that lie outside a span; ``closed`` counts its ends, where clamped values lie."""
    low, high = span
    return (values <= low) | (values >= high) if closed else (values < low) | (values > high)


def _share(which: torch.Tensor) -> float:
    return float(which.double().mean()) if which.numel() else 0.0
