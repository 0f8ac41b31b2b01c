"""Baselines by name: built-in ones, and plug-ins of the entry-point group ``stationpde.baselines``.

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

    from fields.windows import Batch

__all__ = ["Baseline", "Predictor", "baseline", "baselines", "names"]


@runtime_checkable
class Predictor(Protocol):
    """Protocol of a forecaster; every `stationpde.model.learner.Learner` is one."""

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return forecasts of u, v, p, t, rh in SI at the stations, for as many leads as the window of the batch."""
        ...


@dataclass(frozen=True, slots=True)
class Baseline:
    """Description of a baseline for tables and the benchmark.

    Attributes
    ----------
    name, title, reference : name on the command line, name in tables, and publication
    kind : ``rule`` needs no fit, ``closed_form`` is fitted by ``make``, ``trained`` is a `Learner` for the loop,
        ``iterated`` fits itself within the cap of CPU time by ``fit``, as `gbdt_nb.BoostedTrees` does
    make : function that builds the forecaster from a configuration and windows, with training and validation alone
    needs, extra : a module without which it cannot run, and the extra that installs it
    rates : learning rates that are tried on validation
    train : settings of the configuration's ``train`` section that suit it
    switches : choices made on validation, such as ``{"instance_norm": (False, True)}``; passed to ``make`` by keyword
    members : baselines that it combines; ``make`` gets them fitted or trained, by name, as the keyword ``members``
    reads : sections of the configuration that decide its numbers beside data and training, if it is trained; of
        ``loss`` the residual alone, and with it ``lift``, ``model`` and ``pde``
    """

    name: str
    title: str
    reference: str
    kind: Literal["rule", "closed_form", "trained", "iterated"]
    make: Callable[..., Any]
    needs: str | None = None
    rates: tuple[float, ...] = ()
    train: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    extra: str = "baselines"

    def missing(self) -> str | None:
        """Return why the baseline cannot run here, or None."""
        if self.needs is None or importlib.util.find_spec(self.needs) is not None:
            return None
        return f"{self.name} needs {self.needs}: pip install 'stationpde[{self.extra}]'"


# Name to module; each module holds one `BASELINE`.
_BUILT_IN = (
    "persistence", "yesterday", "climatology", "ridge", "ridge_nb", "mlp", "mlp_nb", "gbdt_nb", "blend", "lift",
    "physics", "dlinear", "itransformer", "timemixer", "timexer", "autoformer", "stemgnn", "timefilter",
    "multipatchformer", "corrformer", "cdpnet", "dgformer", "mastergnn", "weathergft",
)  # fmt: skip

baselines: Registry[Baseline] = Registry("baseline", group="stationpde.baselines")


def names() -> list[str]:
    """List all baselines, built-in ones in the order of tables; plug-ins are listed without being imported."""
    return [*_BUILT_IN, *(name for name in baselines.list() if name not in _BUILT_IN)]


def baseline(name: str) -> Baseline:
    """Look up a baseline by name; the error for an unknown name suggests the nearest."""
    if name in _BUILT_IN and name not in baselines.list():
        module = importlib.import_module(f"stationpde.baselines.{name}")
        baselines.add(name, module.BASELINE, owner=module.__name__)
    if name not in names():  # suggest from all names, imported or not
        raise baselines.unknown(name, names())
    return baselines[name]
