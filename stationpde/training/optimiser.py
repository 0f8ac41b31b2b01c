"""AdamW, a learning rate that is a pure function of the step, and the state of both as named tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from stationpde.errors import CorruptArtefactError

if TYPE_CHECKING:
    from stationpde.config import TrainSection

__all__ = ["WEIGHT_DECAY", "Optimiser", "decayed_groups", "learning_rate"]

# One-cycle: the rate rises from peak/25 in the first 30 % of the steps and falls to peak/10,000, both as a cosine
# (Smith and Topin 2019).
_RISE, _START, _END = 0.3, 1.0 / 25.0, 1e-4
# Loshchilov and Hutter (2019), with the constants of Kingma and Ba (2015).
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
# Decay of matrices and kernels, the same in the paper's recipe.
WEIGHT_DECAY = 1e-4
# Largest norm of a gradient (Pascanu et al. 2013), the same in the paper's recipe.
LARGEST_GRADIENT = 1.0
_SLOTS = ("exp_avg", "exp_avg_sq", "step")


def _fit(moments: Mapping[str, Tensor], parameter: Tensor) -> bool:
    """Return whether saved moments are those of a parameter; their count of steps is a number by itself."""
    return all(
        tensor.shape == (() if slot == "step" else parameter.shape) and tensor.is_floating_point()
        for slot, tensor in moments.items()
    )


def learning_rate(step: int, total: int, peak: float, schedule: str = "one_cycle") -> float:
    """Return the learning rate of a step, 0 ≤ ``step`` < ``total``."""
    if schedule == "constant":
        return peak
    rise = max(1.0, _RISE * total)
    if step < rise:
        return peak * _between(_START, 1.0, step / rise)
    return peak * _between(1.0, _END, (step - rise) / max(1.0, total - 1 - rise))


def _between(first: float, last: float, share: float) -> float:
    return last + (first - last) * 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))


def decayed_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return parameter groups: matrices and kernels decay towards zero; biases, scales and physical rates do not."""
    decayed = [p for p in module.parameters() if p.requires_grad and p.ndim >= 2]
    free = [p for p in module.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


class Optimiser:
    """AdamW over the groups of a learner; a group's ``lr_scale`` multiplies its rate.

    The arithmetic is torch's, the state is in plain dictionaries: creating a `torch.optim.Optimizer` imports the whole
    compiler, two seconds of every start. ``rate_scale`` is halved when training had to be rolled back.
    """

    def __init__(self, module: nn.Module, groups: Iterable[dict[str, Any]], settings: TrainSection, total: int) -> None:
        self._settings = settings
        self._total = total
        self._groups = [{"weight_decay": WEIGHT_DECAY, "lr_scale": 1.0, **group} for group in groups]
        for group in self._groups:
            group["params"] = list(group["params"])
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
        self._state: dict[Tensor, dict[str, Tensor]] = {}
        self.parameters: list[Tensor] = [p for group in self._groups for p in group["params"]]
        self.rate_scale = 1.0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.rate_scale * learning_rate(step, self._total, self._settings.lr, self._settings.schedule)

    def zero_grad(self) -> None:
        """Clear the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def clip(self) -> float:
        """Scale the gradient to its largest allowed norm; return the norm before."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
        factor = (LARGEST_GRADIENT / (norm + 1e-12)).clamp(max=1.0)
        torch._foreach_mul_(gradients, factor)
        return float(norm)

    @torch.no_grad()
    def step(self, step: int) -> None:
        """Update the parameters."""
        rate = self.rate(step)
        for group in self._groups:
            updated = [p for p in group["params"] if p.grad is not None]
            if not updated:
                continue
            states = [self._state_of(p) for p in updated]
            mean, square, count = ([state[slot] for state in states] for slot in _SLOTS)
            adamw(
                updated, [p.grad for p in updated], mean, square, [], count, fused=True, amsgrad=False, maximize=False,
                beta1=_BETAS[0], beta2=_BETAS[1], eps=_EPSILON, lr=rate * group["lr_scale"],
                weight_decay=group["weight_decay"],
            )  # fmt: skip

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter not in self._state:
            zeros = {slot: torch.zeros_like(parameter, memory_format=torch.preserve_format) for slot in _SLOTS[:2]}
            self._state[parameter] = {**zeros, "step": torch.zeros((), device=parameter.device)}
        return self._state[parameter]

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments by parameter name."""
        return {
            f"{slot}/{self._names[parameter]}": state[slot]
            for parameter, state in self._state.items()
            for slot in _SLOTS
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore moments that `tensors` returned; a parameter without any (no step taken yet) stays without."""
        self._state.clear()
        for parameter in self.parameters:
            name = self._names[parameter]
            moments = {slot: tensors[f"{slot}/{name}"] for slot in _SLOTS if f"{slot}/{name}" in tensors}
            if not moments:
                continue
            if len(moments) != len(_SLOTS) or not _fit(moments, parameter):
                raise CorruptArtefactError(f"the optimiser's state of `{name}` does not fit the model")
            self._state[parameter] = {slot: moments[slot].to(parameter.device, copy=True) for slot in _SLOTS}
