"""What the training loop trains: anything with a loss and a forecast, the model and every baseline alike.

A learner may also have ``prepare(source, report)``, which fits buffers on the training split before the first step and
calls ``report(what, done, total)`` often, which may raise to end it; ``adopt(weights)``, which makes the weights of a
run on other data fit (``train --init``); and ``calibrate(batches, total)``, which sets buffers on a part of validation
before it is scored; ``total`` adds up ranks. One whose ``preparation()`` says what its ``prepare`` depends on, and that
has ``prepared()`` and ``take_prepared(tensors)``, is spared fitting the same twice in one benchmark.

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

    from fields.torch_data import Batch

__all__ = ["Learner", "LocalReducer", "LossTerms", "Reducer", "logged_terms"]


class Reducer(Protocol):
    r"""Sums over the ranks that share one batch.

    A batch is divided over the ranks. A loss that is a function of sums over the batch,
    :math:`L = f(\sum_r a_r)`, is the same on every rank when each sum goes through `sum`, whose value is the global
    sum and whose gradient is that of the rank's own part. The loop adds up the gradients of the ranks, so that

    .. math:: \sum_r f'(A)\,\partial a_r/\partial\vartheta = \partial L/\partial\vartheta ,

    what one process would have found. A term that is no sum over the batch (a penalty on parameters) must be passed
    through `share`, or it would count once for every rank.
    """

    rank: int
    world: int

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks; the gradient goes to the rank's own part."""
        ...

    def share(self, tensor: Tensor) -> Tensor:
        """A term that every rank computes alike, with this rank's share of its gradient."""
        ...


class LocalReducer:
    """The reducer of one process: everything is its own sum."""

    rank = 0
    world = 1

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor

    def share(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
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
        """The loss of this rank's part of a batch, with every sum over the batch passed through ``reducer``."""
        ...

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Forecast of u, v, p, t, rh in SI at the stations; no randomness, no gradient needed."""
        ...

    def parameter_groups(self, weight_decay: float) -> Iterable[dict[str, Any]]:
        """Groups for the optimiser (``params`` and what differs, such as ``weight_decay`` or ``lr_scale``)."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Shapes, Courant and diffusion numbers and whatever else is worth knowing before training."""
        ...


def logged_terms(terms: LossTerms) -> dict[str, Tensor]:
    """The scalar tensors of a loss by name, ``total`` first."""
    found = {"total": terms.total}
    if is_dataclass(terms):
        for field in dataclass_fields(terms):
            value = getattr(terms, field.name)
            if isinstance(value, Tensor) and value.ndim == 0:
                found[field.name] = value
    return found
