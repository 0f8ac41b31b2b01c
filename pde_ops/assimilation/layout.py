r"""The control vector :math:`\chi`: independent standard normal numbers, and what a model makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..errors import DeclarationError, UnknownNameError
from ..units import Unit
from .controls import Coefficient, Control, Source, State
from .covariances import Root, correlation_root
from .latent import LatentCoefficients
from .quantities import positive_seconds
from .window import Window, steps_of

if TYPE_CHECKING:
    from jaxtyping import Float

    from ..tendency import Tendency

__all__ = ["Inputs", "Layout", "Maps"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a control vector stands for, in SI.

    Attributes
    ----------
    state : initial state ``[1, field, y, x]``
    coefficients : values ``[coefficient]``
    sources : corrections of closures by name, ``[piece, y, x]``
    raw : the numbers that the coefficients are computed from
    """

    state: Tensor
    coefficients: Tensor
    sources: Mapping[str, Tensor]
    raw: Tensor


class Maps:
    """The part of a control vector that becomes maps: one field of the initial state, or the pieces of a source.

    Attributes
    ----------
    channel : of the field, None for a source
    every : steps of a piece
    """

    def __init__(
        self, name: str, unit: Unit, root: Root, channel: int | None, pieces: int = 1, every: int = 1,
        mixing: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.name, self.unit, self.root, self.channel = name, unit, root, channel
        self.pieces, self.every, self.mixing = pieces, every, mixing
        self.shape = (pieces, *root.error.shape)
        self.size = int(np.prod(self.shape))

    def increment(self, chi: Float[Tensor, " part"]) -> Float[Tensor, "piece y x"]:
        """Return the background error that a part of the control vector stands for."""
        maps = self.root.apply(chi.reshape(self.shape))
        return maps if self.mixing is None else torch.einsum("pq,qyx->pyx", self.mixing, maps)

    def variance(self) -> Float[Tensor, "piece y x"]:
        """Return the background variance."""
        return self.root.error.square().expand(self.shape)


class Layout:
    """Which numbers of a control vector are what.

    Attributes
    ----------
    maps : initial fields and sources, with the slice of each
    coefficients : the coefficients that are sought, as functions of their slice
    size : of the vector
    """

    def __init__(self, controls: Sequence[Control], tendency: Tendency, window: Window, background: Tensor) -> None:
        self.background = background
        self.maps: list[tuple[Maps, slice]] = []
        sought: list[Coefficient] = []
        self.size = 0
        for control in controls:
            if isinstance(control, State):
                for part in _fields(control, tendency, background):
                    self._add(part)
            elif isinstance(control, Source):
                self._add(_source(control, tendency, window, background))
            elif isinstance(control, Coefficient):
                sought.append(control)
            else:
                raise DeclarationError(
                    f"`controls` holds {type(control).__name__}", do="build State, Coefficient or Source"
                )
        self.coefficients = LatentCoefficients(tendency, sought)
        self.coefficients_at = slice(self.size, self.size + len(sought))
        self.size += len(sought)
        names = [("source" if part.channel is None else "state", part.name) for part, _ in self.maps]
        names += [("coefficient", control.name) for control in sought]
        twice = sorted({f"{kind} '{name}'" for kind, name in names if names.count((kind, name)) > 1})
        if twice:
            raise DeclarationError(f"`controls` names {', '.join(twice)} twice", do="name each control once")
        if not self.size:
            raise DeclarationError(
                "there is nothing to estimate: `controls` is empty", do="controls=[State({'T': Gaussian(…)})]"
            )

    def _add(self, part: Maps) -> None:
        self.maps.append((part, slice(self.size, self.size + part.size)))
        self.size += part.size

    def inputs(self, chi: Float[Tensor, " control"]) -> Inputs:
        """Return what a control vector stands for; differentiable."""
        channels, sources = list(self.background.unbind(1)), {}
        for part, where in self.maps:
            increment = part.increment(chi[where])
            if part.channel is None:
                sources[part.name] = increment
            else:
                channels[part.channel] = channels[part.channel] + increment
        raw = self.coefficients.raw(chi[self.coefficients_at])
        return Inputs(torch.stack(channels, dim=1), self.coefficients.values(raw), sources, raw)

    def every(self) -> dict[str, int]:
        """Return the steps of a piece of each source."""
        return {part.name: part.every for part, _ in self.maps if part.channel is None}


def _fields(control: State, tendency: Tendency, background: Tensor) -> list[Maps]:
    names, parts = tendency.field_names, []
    for name, covariance in control.errors.items():
        if name not in names:
            raise UnknownNameError(
                f"State: '{tendency.system.name}' has no field '{name}'", do=f"it has {', '.join(names)}"
            )
        channel = names.index(name)
        unit = tendency.fields[channel].unit
        root = covariance.root(f"background error of '{name}'", unit, tendency.grid, background)
        parts.append(Maps(name, unit, root, channel))
    return parts


def _source(control: Source, tendency: Tendency, window: Window, like: Tensor) -> Maps:
    closures = {closure.name: closure for closure in tendency.system.closures}
    if control.name not in closures:
        raise UnknownNameError(
            f"Source: '{tendency.system.name}' has no closure '{control.name}'",
            do=f"it has {', '.join(closures) or 'none: write the source into the equations as a Closure'}",
        )
    owner = f"Source('{control.name}')"
    unit = closures[control.name].unit
    root = control.error.root(owner, unit, tendency.grid, like)
    every = window.steps if control.every is None else steps_of(f"{owner}: `every`", control.every, window.dt)
    pieces, mixing = -(-window.steps // every), None
    if control.memory is not None:
        memory = positive_seconds(f"{owner}: `memory`", control.memory)
        mixing = torch.as_tensor(correlation_root(pieces, every * window.dt / memory)).to(like)
    return Maps(control.name, unit, root, None, pieces, every, mixing)
