"""Reaction to a loss or gradient that is not finite: skip, then roll back with half the rate, then give up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stationpde.seeding import seed_everything

if TYPE_CHECKING:
    from fields.windows import Batch
    from stationpde.model import Learner, Reducer

__all__ = ["DivergenceGuard", "locate_fault"]

Verdict = Literal["good", "skip", "roll_back", "give_up"]


@dataclass(slots=True)
class DivergenceGuard:
    """Counter of steps whose loss or gradient is not finite.

    One bad step is skipped. ``patience`` in a row roll training back to its last good checkpoint at half the learning
    rate, ``most_rollbacks`` times; after that it ends.
    """

    patience: int = 3
    most_rollbacks: int = 3
    in_a_row: int = 0
    skipped: int = 0
    rollbacks: int = 0

    def judge(self, finite: bool) -> Verdict:
        """Decide what to do after a step."""
        if finite:
            self.in_a_row = 0
            return "good"
        self.in_a_row += 1
        self.skipped += 1
        if self.in_a_row < self.patience:
            return "skip"
        self.in_a_row = 0
        if self.rollbacks >= self.most_rollbacks:
            return "give_up"
        self.rollbacks += 1
        return "roll_back"


def locate_fault(learner: Learner, batch: Batch, reducer: Reducer, seed: tuple[Any, ...]) -> dict[str, Any]:
    """Compute a bad step again and name the first place that is not finite.

    Returns
    -------
    dict
        ``parameters``: those that are not finite; ``module``: the first whose output is not; ``operation``: the first
        whose output is not finite although its inputs are, or the error of the backward pass; ``gradients``: parameters
        whose gradient is not finite; ``input``: whether the batch itself holds infinities
    """
    module = learner.module
    first: list[str] = []
    hooks = [part.register_forward_hook(_watch(name or "(root)", first)) for name, part in module.named_modules()]
    culprit, operation = _FirstCulprit(), None
    module.zero_grad(set_to_none=True)
    try:
        seed_everything(*seed)
        with torch.autograd.set_detect_anomaly(True, check_nan=True):
            with culprit:
                total = learner.losses(batch, reducer).total
            total.backward()
    except RuntimeError as problem:
        operation = str(problem).splitlines()[0]
    finally:
        for hook in hooks:
            hook.remove()
    named = list(module.named_parameters())
    return {
        "parameters": [name for name, p in named if not _is_finite(p)][:20],
        "module": first[0] if first else None,
        "operation": culprit.name or operation,
        "gradients": [name for name, p in named if p.grad is not None and not _is_finite(p.grad)][:20],
        "input": bool(torch.isinf(batch.history).any() or torch.isinf(batch.future).any()),
    }


class _FirstCulprit(TorchFunctionMode):
    """Records the first function whose output is not finite although its tensor arguments are."""

    def __init__(self) -> None:
        super().__init__()
        self.name: str | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if self.name is None and isinstance(output, Tensor) and output.is_floating_point() and not _is_finite(output):
            # Missing observations are NaN by design: a function that only passes them on is not the cause.
            inputs = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Tensor) and x.is_floating_point()]
            if inputs and all(map(_is_finite, inputs)):
                self.name = getattr(func, "__name__", str(func))
        return output


def _is_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _watch(name: str, first: list[str]) -> Any:
    def record_first(part: nn.Module, inputs: Any, output: Any) -> None:
        outputs = output if isinstance(output, tuple | list) else (output,)
        if not first and any(isinstance(x, Tensor) and x.is_floating_point() and not _is_finite(x) for x in outputs):
            first.append(f"{name} ({type(part).__name__})")

    return record_first
