"""Networks of the package neuralforecast as plain modules of one station: rows in, rows out.

The package is imported when such a baseline is made, which takes several seconds. Its models are Lightning modules; of
these only layers and the forward pass are used here. Losses, sampling, scaling and training are our own.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from stationpde.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from jaxtyping import Float

__all__ = ["RowsOfModel", "made", "models_of"]

_MOST_SEEDS = 2**31


def models_of(name: str) -> ModuleType:
    """A module of ``neuralforecast.models``.

    Raises
    ------
    UsageError
        If the package is not installed.
    """
    try:
        found = importlib.import_module(f"neuralforecast.models.{name}")
    except ImportError as problem:
        raise UsageError(
            f"this baseline needs neuralforecast, which cannot be imported: {problem}",
            do="pip install 'stationpde[baselines]'",
        ) from None
    # It announces every seed that it is given.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    return found


class RowsOfModel(nn.Module):
    """The forward pass of a multivariate model on ``[rows, history, channel]``, without covariates."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Float[Tensor, "rows history channel"]) -> Float[Tensor, "rows lead channel"]:
        """Rows of one station each."""
        nothing = dict.fromkeys(("futr_exog", "hist_exog", "stat_exog", "insample_mask"))
        found: Tensor = self.model({"insample_y": rows, **nothing})
        return found


def made(kind: Any, settings: Mapping[str, Any], unused: Sequence[str] = ()) -> RowsOfModel:
    """A model with weights that follow torch's global generator.

    Parameters
    ----------
    kind : a class of neuralforecast, which seeds all generators by itself when it is made
    unused : layers that the class creates and its forward pass makes no use of; they are not trained
    """
    seed = int(torch.randint(_MOST_SEEDS, ()))
    model = kind(**settings, random_seed=seed, scaler_type="identity")
    for name, parameter in model.named_parameters():
        if not set(unused).isdisjoint(name.split(".")):
            parameter.requires_grad_(False)
    return RowsOfModel(model)
