"""`torch.compile` for the networks that a forecast repeats and that take most time: closure, data branch, station head.

The equations have a backend of their own, whose generated kernel is faster than code of a general compiler and would
break every graph that it is part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from stationpde.model.model import StationPDEModel

__all__ = ["COMPILED", "compile_networks", "networks_of"]

# The encoder runs once a window and the router is two small convolutions: compiling them takes as long as all of these
# (53 against 67 CPU s on the Weather2K shape) and a step is no faster for it.
COMPILED = ("closure", "data_branch", "head")


def networks_of(model: StationPDEModel) -> dict[str, nn.Module]:
    """Return the networks of a model, by name."""
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
    """Compile the networks of `COMPILED` in place; parameters, names and checkpoints stay as they are.

    The first batch of each kind (training, validation, a last smaller one) takes seconds to tens of seconds longer.
    """
    networks = networks_of(model)
    for name in COMPILED:
        if name in networks:
            networks[name].compile(backend=backend)
