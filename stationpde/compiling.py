"""`torch.compile` for what a forecast repeats and what takes its time: closure, data-driven branch and station head.

The equations keep their own backend, whose generated kernel is faster than what a general compiler makes of them, and
would end every graph that it is part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from stationpde.model import StationPDEModel

__all__ = ["COMPILED", "compile_networks", "networks_of"]

# The encoder runs once a window and the router is two small convolutions: compiling them takes as long as all of these
# (53 against 67 CPU s on the Weather2K shape) and a step is no faster for it.
COMPILED = ("closure", "data_branch", "head")


def networks_of(model: StationPDEModel) -> dict[str, nn.Module]:
    """The networks of a model, by name."""
    branch = model.pde_branch
    named = {
        "encoder": model.encoder,
        "closure": None if branch is None else branch.closure,
        "data_branch": model.data_branch,
        "router": model.router,
        "head": model.head,
    }
    return {name: module for name, module in named.items() if module is not None}


def compile_networks(model: StationPDEModel, backend: str = "inductor") -> None:
    """Compile those networks in place; parameters, names and checkpoints stay as they are.

    The first batch of each kind (training, validation, a last smaller one) takes seconds to tens of seconds longer.
    """
    networks = networks_of(model)
    for name in COMPILED:
        if name in networks:
            networks[name].compile(backend=backend)
