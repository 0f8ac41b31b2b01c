"""Learner: the interface of the training loop to the model and every baseline, a loss and a forecast.

A learner may also have ``prepare(source, report)``, which fits buffers on the training split before the first step and
calls ``report(task, done, total)`` often, which may raise to end it; ``adopt(weights)``, which adapts the weights of a
run on other data (``train --init``); and ``calibrate(batches, total)``, which sets buffers on a part of validation
before it is scored; ``total`` adds up ranks. Where ``preparation()`` returns all that ``prepare`` depends on, and there
are ``prepared()`` and ``take_prepared(tensors)``, a benchmark does not fit the same twice.

The loop owns the optimiser, the order of windows, the random numbers and the files. A learner owns the rest. Before
each call of `Learner.losses` the loop seeds torch's global generator from (seed, epoch, step, rank), so that a learner
that draws from it (dropout, stations left out) repeats exactly after a resumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

    from fields.windows import Batch

__all__ = ["Learner", "LocalReducer", "LossTerms", "Reducer", "logged_terms"]


class Reducer(Protocol):
    r"""Sums over the ranks that share one batch.

    A batch is divided over the ranks. A loss that is a function of sums over the batch,
    :math:`L = f(\sum_r a_r)`, is the same on every rank when each sum goes through `sum`, whose value is the global
    sum and whose gradient is that of the rank's own part. The loop adds up the gradients of the ranks, so that

    .. math:: \sum_r f'(A)\,\partial a_r/\partial\vartheta = \partial L/\partial\vartheta ,

    the gradient of one process. A term that is no sum over the batch (a penalty on parameters) must be passed
    through `share`, or it would count once for every rank.
    """

    rank: int
    world: int

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over ranks; the gradient is that of this rank's part."""
        ...

    def share(self, tensor: Tensor) -> Tensor:
        """Return a term that every rank computes alike, with this rank's share of its gradient."""
        ...


class LocalReducer:
    """Reducer for one process: sums are returned unchanged."""

    rank = 0
    world = 1

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the tensor itself."""
        return tensor

    def share(self, tensor: Tensor) -> Tensor:
        """Return the tensor itself."""
        return tensor


class LossTerms(Protocol):
    """A loss: ``total`` is differentiated; every other scalar tensor that it holds is logged under its name.

    A term called ``courant`` is shown while training.
    """

    @property
    def total(self) -> Tensor:
        """The loss of the whole batch, over all ranks; a scalar with a gradient."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A model with its loss, ready to be trained."""

    @property
    def module(self) -> nn.Module:
        """Parameters, and as buffers everything that a forecast needs."""
        ...

    def losses(self, batch: Batch, reducer: Reducer) -> LossTerms:
        """Return the loss of this rank's part of a batch, with every sum over the batch taken by ``reducer``."""
        ...

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the forecast of u, v, p, t, rh in SI at the stations; no randomness, no gradient needed."""
        ...

    def parameter_groups(self, weight_decay: float) -> Iterable[dict[str, Any]]:
        """Return groups for the optimiser (``params``, and settings such as ``weight_decay`` or ``lr_scale``)."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Return shapes, Courant and diffusion numbers and other facts that are shown before training."""
        ...


def logged_terms(terms: LossTerms) -> dict[str, Tensor]:
    """Return the scalar tensors of a loss by name, ``total`` first."""
    scalars = {"total": terms.total}
    if is_dataclass(terms):
        for field in dataclass_fields(terms):
            value = getattr(terms, field.name)
            if isinstance(value, Tensor) and value.ndim == 0:
                scalars[field.name] = value
    return scalars
