r"""Fit a network of time and place to wind and pressure under the equations of motion: physics-guided reconstruction.

A network :math:`(t, x, y) \to (u, v, \pi)`, :math:`\pi = R_d T_0 \ln p'` with :math:`p'` the pressure reduced to sea
level, is drawn to the observations and to

.. math:: u_x + v_y = 0, \quad u_t + u\,u_x + v\,u_y + \pi_x - f v = 0, \quad v_t + u\,v_x + v\,v_y + \pi_y + f u = 0

which has neither friction nor viscosity. With the mean squares :math:`l_i` of the errors in u, v and p (in variances)
and twice those of the residuals, at random places and at the stations (in units of W/L and W²/L, for the largest speed
W and the diagonal L of the network), the loss is :math:`\sum_i l_i^2 / \sum_i l_i`.

Reference: Soto et al., "Physics-informed neural networks for high-resolution weather reconstruction from sparse weather
stations", Open Research Europe 2024, as described with its public code.

What differs from the original: the Coriolis term, which `PinnSettings.coriolis` leaves out. The mean of the losses is
weighted by the losses themselves, :math:`w_i = l_i / \sum l`, and no gradient passes through the weights; public code
differentiates them, so that the gradient *raises* a loss smaller than half the weighted mean
(`PinnSettings.published_loss`). Four layers of 64 instead of 18 of 600; the first is a sine whose frequencies in time
begin at about one in a day, since a tanh of the time alone learns no daily cycle within minutes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fields.constants import Omega, R_d, T_standard, earth_radius
from fields.lift.pinn_settings import PinnSettings
from fields.times import DAY

__all__ = ["PinnData", "PinnNetwork", "combined", "evaluated", "fit", "residuals", "seconds_of_a_step"]

Array = NDArray[Any]

_WIDTH, _HIDDEN = 64, 3  # layers after the first
_PHYSICS = 2.0  # λ, weight of the residuals
_BATCH = 1024
_RATE = 3e-3
# Frequencies of the first layer at the start: in time about one in a day, in space some tenths of the diagonal.
_PER_DAY, _PER_DIAGONAL = 2.0 * math.pi, 6.0
# Least scales, SI: calm air and a network at one place must not divide by zero.
_LEAST_SPEED, _LEAST_DIAGONAL, _LEAST_PI = 0.1, 1e3, 1.0
_TRIAL_STEPS = 6
_POINTS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class PinnData:
    """Observations of one window and the scales of the network.

    Attributes
    ----------
    place : ``[point, 3]``: seconds from the middle of the window, metres east and north
    coriolis : f at each point, 1/s; 0 where it is left out
    values : ``[point, 3]``: u and v [m/s], π [m²/s²] from its mean; NaN where it was not observed
    speed, length : W [m/s] and L [m]
    mean, spread : of u, v and π over the points
    low, high : corners of the box in which random places are drawn, as ``place``
    latitude : of the origin of ``place``, degrees
    is_rotating : whether the Coriolis term acts
    """

    place: Tensor
    coriolis: Tensor
    values: Tensor
    speed: float
    length: float
    mean: Tensor
    spread: Tensor
    low: Tensor
    high: Tensor
    latitude: float
    is_rotating: bool

    @classmethod
    def of(
        cls, seconds: Array, xy: Array, latitude: float, u: Array, v: Array, log_pressure: Array, *, coriolis: bool,
        reach: tuple[Array, Array] | None = None,
    ) -> PinnData:  # fmt: skip
        """Gather what was observed.

        Parameters
        ----------
        seconds : ``[time]``, from the middle of the window
        xy : metres ``[station, 2]`` from a place at ``latitude`` [degrees]
        u, v, log_pressure : ``[time, station]``, NaN = missing; ln p' from any level
        coriolis : whether the Coriolis term acts
        reach : lowest and highest of ``xy`` among stations and targets
        """
        moments, stations = np.meshgrid(np.arange(len(seconds)), np.arange(len(xy)), indexing="ij")
        place = np.stack([seconds[moments], xy[stations, 0], xy[stations, 1]], axis=-1).reshape(-1, 3)
        values = np.stack([u, v, R_d * T_standard * log_pressure], axis=-1).reshape(-1, 3).astype(np.float64)
        there = np.isfinite(values).any(axis=1)
        place, values = place[there], values[there]
        mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        spread = np.maximum(spread, [_LEAST_SPEED, _LEAST_SPEED, _LEAST_PI])
        low, high = reach if reach is not None else (xy.min(axis=0), xy.max(axis=0))
        length = max(float(np.hypot(*np.ptp(xy, axis=0))), _LEAST_DIAGONAL)
        speed = max(float(np.nanmax(np.hypot(values[:, 0], values[:, 1]), initial=0.0)), _LEAST_SPEED)
        tensors = (torch.as_tensor(part, dtype=torch.float32) for part in (place, values, mean, spread))
        points, observed, middle, width = tensors
        corners = (torch.tensor([float(f(seconds)), *g]) for f, g in ((np.min, low), (np.max, high)))
        lowest, highest = (corner.to(torch.float32) for corner in corners)
        rotation = _coriolis(points, latitude) if coriolis else torch.zeros(len(points))
        return cls(points, rotation, observed, speed, length, middle, width, lowest, highest, latitude, coriolis)


def _coriolis(place: Tensor, latitude: float) -> Tensor:
    """Return f = 2Ω sin φ at places [1/s], with φ from the metres north of a latitude [degrees]."""
    return 2.0 * Omega * torch.sin(math.radians(latitude) + place[:, 2] / earth_radius)


class PinnNetwork(nn.Module):
    """Network from seconds and metres to u, v [m/s] and π [m²/s²], with its first derivatives.

    Parameters
    ----------
    data : scales and mean of the observations
    generator : of the random weights
    """

    unit: Tensor
    mean: Tensor
    spread: Tensor

    def __init__(self, data: PinnData, generator: torch.Generator) -> None:
        super().__init__()
        unit = torch.tensor([DAY, data.length, data.length])
        for name, values in {"unit": unit, "mean": data.mean, "spread": data.spread}.items():
            self.register_buffer(name, values)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        frequency = torch.tensor([_PER_DAY, _PER_DIAGONAL, _PER_DIAGONAL])
        self.first = nn.Parameter(normal(_WIDTH, 3) * frequency)
        self.phase = nn.Parameter(2.0 * math.pi * torch.rand(_WIDTH, generator=generator))
        self.hidden = nn.ParameterList(normal(_WIDTH, _WIDTH) / math.sqrt(_WIDTH) for _ in range(_HIDDEN))
        self.biases = nn.ParameterList(torch.zeros(_WIDTH) for _ in range(_HIDDEN))
        self.last = nn.Parameter(0.1 * normal(3, _WIDTH) / math.sqrt(_WIDTH))
        self.level = nn.Parameter(torch.zeros(3))

    def forward(self, place: Tensor) -> Tensor:
        """Return u, v, π ``[point, 3]`` at ``[point, 3]``."""
        values = torch.sin((place / self.unit) @ self.first.T + self.phase)
        for weight, bias in zip(self.hidden, self.biases):
            values = torch.tanh(values @ weight.T + bias)
        return (values @ self.last.T + self.level) * self.spread + self.mean

    def with_derivatives(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """Return u, v, π ``[point, 3]`` and their derivatives by t, x and y ``[direction, point, 3]``, SI.

        Derivatives go forward with the values, one chain rule a layer: two passes fewer than by differentiating.
        """
        angle = (place / self.unit) @ self.first.T + self.phase
        values = torch.sin(angle)
        slopes = torch.cos(angle) * (self.first / self.unit).T[:, None, :]
        for weight, bias in zip(self.hidden, self.biases):
            values = torch.tanh(values @ weight.T + bias)
            slopes = (1.0 - values.square()) * (slopes @ weight.T)
        return (values @ self.last.T + self.level) * self.spread + self.mean, (slopes @ self.last.T) * self.spread


def residuals(values: Tensor, slopes: Tensor, coriolis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the residuals of continuity [1/s] and of both equations of motion [m/s²] at points.

    Parameters
    ----------
    values, slopes : as of `PinnNetwork.with_derivatives`
    coriolis : f, 1/s
    """
    u, v = values[:, 0], values[:, 1]
    (u_t, v_t, _), (u_x, v_x, pi_x), (u_y, v_y, pi_y) = (part.unbind(-1) for part in slopes)
    return (
        u_x + v_y,
        u_t + u * u_x + v * u_y + pi_x - coriolis * v,
        v_t + u * v_x + v * v_y + pi_y + coriolis * u,
    )


def combined(losses: Tensor, published: bool = False) -> Tensor:
    """Return Σ l² / Σ l of non-negative losses; as published, the weights l / Σ l have a gradient as well."""
    weights = losses / losses.sum().clamp(min=1e-12)
    return ((weights if published else weights.detach()) * losses).sum()


def _physics(network: PinnNetwork, place: Tensor, coriolis: Tensor, data: PinnData) -> Tensor:
    divergence, along, across = residuals(*network.with_derivatives(place), coriolis)
    turnover, acceleration = data.speed / data.length, data.speed**2 / data.length
    parts = (divergence / turnover, along / acceleration, across / acceleration)
    return _PHYSICS * torch.stack([part.square().mean() for part in parts]).sum()


def _losses(network: PinnNetwork, data: PinnData, generator: torch.Generator) -> Tensor:
    """Return the losses of random observations and random places: u, v, p, residuals at stations and elsewhere."""
    chosen = torch.randint(len(data.place), (_BATCH,), generator=generator)
    place, target = data.place[chosen], data.values[chosen]
    there = torch.isfinite(target)
    error = (network(place) - torch.where(there, target, data.mean)) / data.spread
    squares = torch.where(there, error.square(), 0.0).sum(dim=0) / there.sum(dim=0).clamp(min=1)
    anywhere = data.low + torch.rand(_BATCH, 3, generator=generator) * (data.high - data.low)
    elsewhere = _coriolis(anywhere, data.latitude) if data.is_rotating else torch.zeros(_BATCH)
    at_stations = _physics(network, place[::2], data.coriolis[chosen][::2], data)
    return torch.stack([*squares, at_stations, _physics(network, anywhere, elsewhere, data)])


def _steps(data: PinnData, settings: PinnSettings) -> Iterator[PinnNetwork]:
    """Yield the network after each step of its training."""
    generator = torch.Generator().manual_seed(settings.seed)
    network = PinnNetwork(data, generator)
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    for step in range(settings.steps):
        for group in optimiser.param_groups:
            group["lr"] = _RATE * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps))
        optimiser.zero_grad()
        combined(_losses(network, data, generator), settings.published_loss).backward()
        optimiser.step()
        yield network


def fit(data: PinnData, settings: PinnSettings, progress: Callable[[int, int], None] | None = None) -> PinnNetwork:
    """Fit a network; the same settings and observations give the same network.

    Parameters
    ----------
    progress : called with the steps that are done and their total; may raise to end the fit
    """
    steps = _steps(data, settings)
    for done in range(1, settings.steps + 1):
        network = next(steps)
        if progress is not None:
            progress(done, settings.steps)
    return network.eval()


def seconds_of_a_step(data: PinnData, settings: PinnSettings) -> tuple[float, float]:
    """Measure the seconds of a step of training and those of the processor, on the first few."""
    steps = _steps(data, replace(settings, steps=_TRIAL_STEPS + 1))
    next(steps)  # the first one warms up
    began, busy = time.perf_counter(), time.process_time()
    for _ in steps:
        pass
    return (time.perf_counter() - began) / _TRIAL_STEPS, (time.process_time() - busy) / _TRIAL_STEPS


@torch.no_grad()
def evaluated(network: PinnNetwork, seconds: Array, xy: Array) -> Array:
    """Evaluate a network at times ``[time]`` and places ``[place, 2]``: u, v and ln p' ``[3, time, place]``."""
    places = torch.as_tensor(xy, dtype=torch.float32)
    moments = max(1, _POINTS_AT_ONCE // max(len(places), 1))
    parts = []
    for part in torch.as_tensor(seconds, dtype=torch.float32).split(moments):
        here = torch.cat(
            [part[:, None, None].expand(-1, len(places), 1), places[None].expand(len(part), -1, -1)], dim=-1
        )
        parts.append(network(here.flatten(0, 1)).unflatten(0, (len(part), len(places))))
    values = torch.cat(parts).movedim(-1, 0).double().numpy()
    values[2] /= R_d * T_standard
    return np.asarray(values)
