"""Exponential average of the weights: what is validated and used when `train.average` is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from stationpde.errors import CorruptArtefactError

__all__ = ["WeightAverage"]


class WeightAverage:
    r"""Running mean of the parameters.

    .. math:: \bar\vartheta_n = d_n \bar\vartheta_{n-1} + (1 - d_n)\,\vartheta_n,
        \qquad d_n = \min\bigl(d, (1 + n)/(10 + n)\bigr)

    The smaller decay of the first steps keeps the start from weighing on a short run. With :math:`d = 0` there is no
    average and the weights are used as they are.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._module = module
        self.decay = decay
        self.updates = 0
        self._mean: dict[str, Tensor] = {}
        if decay > 0:
            self._mean = {name: p.detach().clone() for name, p in module.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after a step."""
        if not self._mean:
            return
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        means = list(self._mean.values())
        torch._foreach_lerp_(means, [p.detach() for p in self._module.parameters()], 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context in which the module has the averaged weights; they are exchanged back unchanged."""
        if not self._mean:
            yield
            return
        own = {name: p.detach().clone() for name, p in self._module.named_parameters()}
        self._put(self._mean)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._module.named_parameters():
            parameter.copy_(weights[name])

    def tensors(self) -> dict[str, Tensor]:
        """The averaged weights by parameter name; empty without an average."""
        return dict(self._mean)

    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Take over an average that `tensors` gave."""
        if set(tensors) != set(self._mean):
            raise CorruptArtefactError("the averaged weights of the checkpoint are not those of the model")
        for name, mean in self._mean.items():
            mean.copy_(tensors[name])
        self.updates = updates
