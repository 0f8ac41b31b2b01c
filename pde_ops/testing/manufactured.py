r"""Manufactured solutions: meshes of rising resolution, and smooth functions that suit their borders.

Three settings, each with meshes of any number of cells over the same piece of space:

``periodic``
    a plane that repeats in both directions; functions are waves.
``reflecting``
    a plane between walls; functions are cosines, level at the wall, and components of vectors vanish on the wall
    they blow against. For neighbours one cell away such functions suit a zero-gradient border as well.
``sphere``
    a latitude-longitude mesh, 25 to 65 degrees north, that repeats in longitude; only the middle half of the rows is
    compared, away from the border.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..grid import Grid2D
from ..operator import Operator
from .smooth import Smooth, Space

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SETTINGS", "Mesh", "Setting", "observed_order", "range_of", "scheme_errors"]

_WIDTH, _HEIGHT = 1.0e6, 0.8e6  # m; unequal, so that a swap of axes shows
_SOUTH, _NORTH, _EAST = 25.0, 65.0, 40.0  # degrees


@dataclass(frozen=True, slots=True)
class Mesh:
    """A grid and the coordinates of its cell centres; ``compared`` are the rows to look at."""

    grid: Grid2D
    east: Tensor
    north: Tensor
    compared: slice


@dataclass(frozen=True, slots=True)
class Setting:
    """A piece of space, its meshes, and how to make functions on it.

    Attributes
    ----------
    wave : ``wave(middle, amplitude, odd, seed)``: a smooth function within ``middle ± amplitude``; ``odd`` names the
        axis along which it is the component of a vector
    """

    name: str
    space: Space
    mesh: Callable[[int], Mesh]
    wave: Callable[[float, float, str | None, int], Smooth]


def _plane_mesh(boundary: str) -> Callable[[int], Mesh]:
    def mesh(n: int) -> Mesh:
        dx, dy = _WIDTH / n, _HEIGHT / n
        centres = torch.arange(n, dtype=torch.float64) + 0.5
        grid = Grid2D.plane(n, n, dx=dx, dy=dy, boundary=boundary)
        return Mesh(grid, (centres * dx)[None, :], (centres * dy)[:, None], slice(None))

    return mesh


def _sphere_mesh(n: int) -> Mesh:
    step_lat, step_lon = (_NORTH - _SOUTH) / n, _EAST / n
    lat, lon = _SOUTH + (np.arange(n) + 0.5) * step_lat, (np.arange(n) + 0.5) * step_lon
    grid = Grid2D.from_latlon(lat, lon, boundary=("periodic", "zero_gradient"))
    east, north = (torch.tensor(np.deg2rad(values), dtype=torch.float64) for values in (lon, lat))
    return Mesh(grid, east[None, :], north[:, None], slice(n // 4, n - n // 4))


def _repeating(space: Space, width: float, height: float) -> Callable[[float, float, str | None, int], Smooth]:
    def wave(middle: float, amplitude: float, odd: str | None, seed: int) -> Smooth:
        k, m = 2 * math.pi / width, 2 * math.pi / height

        def formula(east: Tensor, north: Tensor) -> Tensor:
            long = torch.sin(k * east + 1.3 * seed) * torch.cos(m * north + 0.7 + 0.9 * seed)
            return middle + amplitude * (0.6 * long + 0.4 * torch.sin(k * east + m * north + 2.1 * seed))

        return space.function(formula)

    return wave


def _between_walls(middle: float, amplitude: float, odd: str | None, seed: int) -> Smooth:
    k, m = math.pi / _WIDTH, math.pi / _HEIGHT

    def formula(east: Tensor, north: Tensor) -> Tensor:
        along_x = torch.sin(k * east) if odd == "x" else torch.cos((1 + seed % 2) * k * east)
        along_y = torch.sin(m * north) if odd == "y" else torch.cos((2 - seed % 2) * m * north)
        # A component of a vector has no mean: that would blow through the wall.
        return (0.0 if odd else middle) + amplitude * along_x * along_y

    return Space.plane().function(formula)


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("periodic", Space.plane(), _plane_mesh("periodic"), _repeating(Space.plane(), _WIDTH, _HEIGHT)),
        Setting("reflecting", Space.plane(), _plane_mesh("reflecting"), _between_walls),
        Setting(
            "sphere", Space.sphere(), _sphere_mesh, _repeating(Space.sphere(), math.radians(_EAST), math.radians(_EAST))
        ),
    )
}


def observed_order(errors: Sequence[float], ratio: float = 2.0) -> float:
    """Order of accuracy that the last two errors show, the mesh being refined by ``ratio`` between them."""
    coarse, fine = errors[-2:]
    return math.log(coarse / fine) / math.log(ratio)


def range_of(record: Operator, argument: str) -> tuple[float, float]:
    """Middle and half-width of the sensible values of an argument; 0.3 ± 1 where none are declared."""
    low, high = record.domain.get(argument, (-0.7, 1.3))
    return 0.5 * (low + high), 0.45 * (high - low)  # a tenth inside, so that nothing sits on the rim of validity


def scheme_errors(record: Operator, setting: str | Setting, cells: Sequence[int] = (32, 64)) -> list[float]:
    """Return the RMS distance of an operator from its declared limit, relative to the limit, for each mesh."""
    if record.limit is None:
        raise ValueError(f"operator '{record.name}' declares no `limit` to compare with")
    where = SETTINGS[setting] if isinstance(setting, str) else setting
    components = record.properties.get("components", {})
    odd = {name: axis for axis, names in components.items() for name in names}
    functions = []
    for seed, name in enumerate(record.inputs):
        middle, amplitude = range_of(record, name)
        functions.append(where.wave(middle, amplitude, odd.get(name), seed))
    exact = record.limit(*functions, where.space)
    errors = []
    for n in cells:
        mesh = where.mesh(n)
        result = record(*(f(mesh.east, mesh.north) for f in functions), grid=mesh.grid)
        truth = exact(mesh.east, mesh.north)[mesh.compared]
        errors.append(float(((result[mesh.compared] - truth) ** 2).mean().sqrt() / (truth**2).mean().sqrt()))
    return errors
