"""Exponential average of the weights, which is validated and used when `train.average` is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from stationpde.errors import CorruptArtefactError

__all__ = ["WeightAverage"]


class WeightAverage:
    r"""Running mean of the parameters.

    .. math:: \bar\vartheta_n = d_n \bar\vartheta_{n-1} + (1 - d_n)\,\vartheta_n,
        \qquad d_n = \min\bigl(d, (1 + n)/(10 + n)\bigr)

    The smaller decay of the first steps limits the weight of the start in a short run. With :math:`d = 0` there is no
    average and the weights are used as they are.

    The arithmetic is that of `torch.optim.swa_utils`. Its `AveragedModel` is not used: it copies the weights at the
    first update instead of averaging them (4e-4 apart after 200 steps of a random walk by 0.01), so that runs would
    not repeat, and it holds a second copy of all buffers.
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
        """Add the weights after a step to the average."""
        if not self._mean:
            return
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        means = list(self._mean.values())
        get_ema_multi_avg_fn(decay)(means, [p.detach() for p in self._module.parameters()], self.updates)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Return a context in which the module has the averaged weights; the trained ones are restored after it."""
        if not self._mean:
            yield
            return
        trained = {name: p.detach().clone() for name, p in self._module.named_parameters()}
        self._copy_into_module(self._mean)
        try:
            yield
        finally:
            self._copy_into_module(trained)

    @torch.no_grad()
    def _copy_into_module(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._module.named_parameters():
            parameter.copy_(weights[name])

    def tensors(self) -> dict[str, Tensor]:
        """Return the averaged weights by parameter name; empty without an average."""
        return dict(self._mean)

    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Restore an average that `tensors` returned."""
        if set(tensors) != set(self._mean):
            raise CorruptArtefactError("the averaged weights of the checkpoint are not those of the model")
        for name, mean in self._mean.items():
            mean.copy_(tensors[name])
        self.updates = updates
