"""AdamW, a learning rate that is a pure function of the step, and the state of both as named tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from stationpde.errors import CorruptArtefactError

if TYPE_CHECKING:
    from stationpde.config_sections import TrainSection

__all__ = ["Optimiser", "decayed_groups", "learning_rate"]

# One-cycle: the rate rises from peak/25 in the first 30 % of the steps and falls to peak/10,000, both as a cosine
# (Smith and Topin 2019).
_RISE, _START, _END = 0.3, 1.0 / 25.0, 1e-4
_SLOTS = ("exp_avg", "exp_avg_sq", "step")


def learning_rate(step: int, total: int, peak: float, schedule: str = "one_cycle") -> float:
    """The rate of a step, 0 ≤ ``step`` < ``total``."""
    if schedule == "constant":
        return peak
    rise = max(1.0, _RISE * total)
    if step < rise:
        return peak * _between(_START, 1.0, step / rise)
    return peak * _between(1.0, _END, (step - rise) / max(1.0, total - 1 - rise))


def _between(first: float, last: float, share: float) -> float:
    return last + (first - last) * 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))


def decayed_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Groups in which matrices and kernels decay towards zero, and biases, scales and physical rates do not."""
    decayed = [p for p in module.parameters() if p.requires_grad and p.ndim >= 2]
    free = [p for p in module.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


class Optimiser:
    """AdamW over the groups of a learner; a group's ``lr_scale`` multiplies its rate.

    ``rate_scale`` is halved when training had to be rolled back.
    """

    def __init__(self, module: nn.Module, groups: Iterable[dict[str, Any]], settings: TrainSection, total: int) -> None:
        given = [dict(group) for group in groups]
        self._scales = [float(group.pop("lr_scale", 1.0)) for group in given]
        self._settings = settings
        self._total = total
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
        self.adamw = torch.optim.AdamW(given, lr=settings.lr, weight_decay=settings.weight_decay)
        self.parameters: list[Tensor] = [p for group in self.adamw.param_groups for p in group["params"]]
        self.rate_scale = 1.0

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return self.rate_scale * learning_rate(step, self._total, self._settings.lr, self._settings.schedule)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.adamw.zero_grad(set_to_none=True)

    def clip(self) -> float:
        """Scale the gradient to its largest allowed norm; returns the norm before."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
        factor = (self._settings.clip / (norm + 1e-12)).clamp(max=1.0)
        torch._foreach_mul_(gradients, factor)
        return float(norm)

    def step(self, step: int) -> None:
        """Move the parameters."""
        rate = self.rate(step)
        for group, scale in zip(self.adamw.param_groups, self._scales, strict=True):
            group["lr"] = rate * scale
        self.adamw.step()

    def tensors(self) -> dict[str, Tensor]:
        """The moments by parameter name."""
        return {
            f"{slot}/{self._names[parameter]}": state[slot]
            for parameter, state in self.adamw.state.items()
            for slot in _SLOTS
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over moments that `tensors` gave; a parameter without any (no step taken yet) stays without."""
        self.adamw.state.clear()
        for parameter in self.parameters:
            name = self._names[parameter]
            found = {slot: tensors[f"{slot}/{name}"] for slot in _SLOTS if f"{slot}/{name}" in tensors}
            if not found:
                continue
            if len(found) != len(_SLOTS) or found["exp_avg"].shape != parameter.shape:
                raise CorruptArtefactError(f"the optimiser's state of `{name}` does not fit the model")
            # AdamW counts its steps on the CPU whatever the parameter's device.
            moved = {slot: found[slot].to(parameter.device, copy=True) for slot in _SLOTS[:2]}
            self.adamw.state[parameter] = {**moved, "step": found["step"].clone()}
