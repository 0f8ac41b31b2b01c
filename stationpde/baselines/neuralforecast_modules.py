"""Networks of the package neuralforecast as plain modules of one station: rows in, rows out.

The package is imported when such a baseline is built, which takes several seconds. Its models are Lightning modules; of
these only layers and the forward pass are used here. Losses, sampling, scaling and training are those of StationPDE.
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

__all__ = ["RowsOfModel", "build_model", "models_of"]

_MOST_SEEDS = 2**31


def models_of(name: str) -> ModuleType:
    """Import a module of ``neuralforecast.models``.

    Raises
    ------
    UsageError
        If the package is not installed.
    """
    try:
        module = importlib.import_module(f"neuralforecast.models.{name}")
    except ImportError as problem:
        raise UsageError(
            f"this baseline needs neuralforecast, which cannot be imported: {problem}",
            code="SPDE-T001",
            do="pip install 'stationpde[baselines]'",
        ) from None
    # It logs every seed.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    return module


class RowsOfModel(nn.Module):
    """The forward pass of a multivariate model on ``[rows, history, channel]``, without covariates."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Float[Tensor, "rows history channel"]) -> Float[Tensor, "rows lead channel"]:
        """Map normalised rows, each the history of one station, to their forecasts."""
        nothing = dict.fromkeys(("futr_exog", "hist_exog", "stat_exog", "insample_mask"))
        forecast: Tensor = self.model({"insample_y": rows, **nothing})
        return forecast


def build_model(kind: Any, settings: Mapping[str, Any], unused: Sequence[str] = ()) -> RowsOfModel:
    """Build a model with weights drawn from torch's global generator.

    Parameters
    ----------
    kind : a class of neuralforecast, whose constructor seeds all generators
    settings : keyword arguments of the class
    unused : layers that the class creates but its forward pass does not use; they are not trained
    """
    seed = int(torch.randint(_MOST_SEEDS, ()))
    model = kind(**settings, random_seed=seed, scaler_type="identity")
    for name, parameter in model.named_parameters():
        if not set(unused).isdisjoint(name.split(".")):
            parameter.requires_grad_(False)
    return RowsOfModel(model)
