"""What happens when a loss or gradient is not finite: skip, then roll back with half the rate, then give up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stationpde.training.seeding import seed_everything

if TYPE_CHECKING:
    from fields.torch_data import Batch
    from stationpde.training.learner import Learner, Reducer

__all__ = ["DivergenceGuard", "locate_fault"]

Verdict = Literal["good", "skip", "roll_back", "give_up"]


@dataclass(slots=True)
class DivergenceGuard:
    """Counts bad steps.

    One bad step is skipped. ``patience`` in a row roll training back to its last good checkpoint at half the learning
    rate, ``most_rollbacks`` times; after that it ends.
    """

    patience: int = 3
    most_rollbacks: int = 3
    in_a_row: int = 0
    skipped: int = 0
    rollbacks: int = 0

    def judge(self, finite: bool) -> Verdict:
        """What to do after a step."""
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
        that makes it out of finite numbers, or what the backward pass accuses; ``gradients``: parameters whose
        gradient is not finite; ``input``: whether the batch itself holds infinities
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
    """Remembers the first function that turns finite tensors into something else."""

    def __init__(self) -> None:
        super().__init__()
        self.name: str | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if self.name is None and isinstance(made, Tensor) and made.is_floating_point() and not _is_finite(made):
            # Missing observations are NaN by design: what only passes them on is innocent.
            given = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Tensor) and x.is_floating_point()]
            if given and all(map(_is_finite, given)):
                self.name = getattr(func, "__name__", str(func))
        return made


def _is_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _watch(name: str, first: list[str]) -> Any:
    def look(part: nn.Module, given: Any, made: Any) -> None:
        outputs = made if isinstance(made, tuple | list) else (made,)
        if not first and any(isinstance(x, Tensor) and x.is_floating_point() and not _is_finite(x) for x in outputs):
            first.append(f"{name} ({type(part).__name__})")

    return look
