"""Baselines by name: our own, and those that others publish under the entry-point group ``stationpde.baselines``.

A baseline is imported when it is first used. All of them get the same windows, masks and training statistics, and give
forecasts that are scored alike.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pde_ops.registry import Registry

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from fields.torch_data import Batch

__all__ = ["Baseline", "Predictor", "baseline", "baselines", "names"]


@runtime_checkable
class Predictor(Protocol):
    """Anything that forecasts; every `stationpde.training.learner.Learner` is one."""

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Forecast of u, v, p, t, rh in SI at the stations, for as many leads as the batch's window has."""
        ...


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline as tables and the benchmark know it.

    Attributes
    ----------
    name, title, reference : how it is typed, how tables print it, where it was described
    kind : ``rule`` needs no fit, ``closed_form`` is fitted by ``make``, ``trained`` is a `Learner` for the loop
    make : from a configuration and the windows of a record to the forecaster, from training and validation alone
    needs : a module of the extra ``[baselines]`` without which it cannot run
    rates : learning rates that are tried on validation
    train : settings of the configuration's ``train`` section that suit it
    switches : choices made on validation, such as ``{"instance_norm": (False, True)}``; passed to ``make`` by keyword
    members : baselines that it combines; ``make`` gets them fitted or trained, by name, as the keyword ``members``
    """

    name: str
    title: str
    reference: str
    kind: Literal["rule", "closed_form", "trained"]
    make: Callable[..., Any]
    needs: str | None = None
    rates: tuple[float, ...] = ()
    train: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    members: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
        if self.needs is None or importlib.util.find_spec(self.needs) is not None:
            return None
        return f"{self.name} needs {self.needs}: pip install 'stationpde[baselines]'"


# Name to module; each module holds one `BASELINE`.
_OWN = (
    "persistence", "yesterday", "climatology", "ridge", "ridge_nb", "mlp", "mlp_nb", "blend", "lift", "physics",
    "dlinear", "itransformer", "timemixer", "timexer", "autoformer", "stemgnn", "timefilter", "multipatchformer",
    "corrformer", "cdpnet",
)  # fmt: skip

baselines: Registry[Baseline] = Registry("baseline", group="stationpde.baselines")


def names() -> list[str]:
    """All baselines, our own in the order of the tables; plug-ins are listed without being imported."""
    return [*_OWN, *(name for name in baselines.list() if name not in _OWN)]


def baseline(name: str) -> Baseline:
    """A baseline by name; an unknown one is an error that suggests the nearest."""
    if name in _OWN and name not in baselines.list():
        module = importlib.import_module(f"stationpde.baselines.{name}")
        baselines.add(name, module.BASELINE, owner=module.__name__)
    if name not in names():  # said of all that there are, imported yet or not
        raise baselines.unknown(name, names())
    return baselines[name]
