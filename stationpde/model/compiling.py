"""`torch.compile` for the networks that a forecast repeats and that take most time: closure, data branch, station head.

The equations have a backend of their own, whose generated kernel is faster than code of a general compiler and would
break every graph that it is part of.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from pde_ops.backends.fused.cache import private_folder
from stationpde.model.network_kernel import is_compiled_here

if TYPE_CHECKING:
    from stationpde.model.model import StationPDEModel

__all__ = ["COMPILED", "Mode", "choose_mode", "compile_networks", "networks_of"]

# The encoder runs once a window and the router is two small convolutions: compiling them takes as long as all of these
# (53 against 67 CPU s on the Weather2K shape) and a step is no faster for it.
COMPILED = ("closure", "data_branch", "head")

# Steps that pay for compiling on a GPU: it takes up to a minute of one core, and a step of some 2,000 small kernels,
# 10 µs each to launch, loses half of them. Estimated, no device was at hand.
STEPS_THAT_PAY = 6000


@dataclass(frozen=True, slots=True)
class Mode:
    """How the networks of a training run are computed, which decides its last bits.

    Attributes
    ----------
    name : ``kernels`` for the compiled networks of `network_kernel`, ``torch`` for operations of torch one by one
    reason : of the choice, for the log
    """

    name: Literal["kernels", "torch", "torch.compile"]
    reason: str


def choose_mode(setting: bool | Literal["auto"], steps: int, device: str, before: str | None = None) -> Mode:
    """Choose how networks are computed.

    Parameters
    ----------
    setting : ``train.compile``
    steps : to come
    device : of the model
    before : mode of a run that is resumed, which ``auto`` keeps: its end is then the same to the last bit
    """
    has_kernels = is_compiled_here(torch.empty(0, device="meta" if device != "cpu" else "cpu"))
    plain: Literal["kernels", "torch"] = "kernels" if has_kernels else "torch"
    if setting is True:
        return Mode("torch.compile", "train.compile = true")
    if setting is False:
        return Mode(plain, "train.compile = false")
    if before is not None:
        return Mode("torch.compile" if before == "torch.compile" else plain, "as before")
    if has_kernels:
        return Mode(plain, "on a CPU they are faster than what torch.compile makes")
    if device == "cpu":
        return Mode(plain, "there is no C compiler")
    if steps < STEPS_THAT_PAY:
        return Mode(plain, f"{steps:,} steps do not pay for torch.compile, {STEPS_THAT_PAY:,} would")
    return Mode("torch.compile", f"{steps:,} steps pay for it")


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

    The first batch of each kind (training, validation, a last smaller one) takes seconds to tens of seconds longer;
    less when the same networks were compiled before, by any run.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(private_folder("inductor", owners_alone=True)))
    networks = networks_of(model)
    for name in COMPILED:
        if name in networks:
            networks[name].compile(backend=backend)
