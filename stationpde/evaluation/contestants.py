"""Models of a benchmark: variants of StationPDE, with or without parts, and every registered baseline.

``default``, ``field`` and ``paper`` are StationPDE; ``default-no_pde`` is StationPDE without a part: any name of
`ABLATIONS` or of an operator, several joined by ``+``. ``paper:recipe_paper`` is a model in a training of its own
(`TRAININGS`) instead of that which recipe and cap of the table say.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stationpde.baselines import Baseline, baseline, names
from stationpde.config import ABLATIONS, VARIANTS, Config
from stationpde.errors import UsageError
from stationpde.evaluation.protocols import protocol

if TYPE_CHECKING:
    from stationpde.data import WindowSource
    from stationpde.model import Learner

__all__ = ["OURS", "TRAININGS", "Contestant", "Task", "Training", "contestant", "known_models"]

OURS = tuple(reversed(VARIANTS))  # the order of tables: the paper's first
_TITLES = {
    "default": "StationPDE", "field": "StationPDE (field without guide)", "paper": "StationPDE (as printed)",
}  # fmt: skip
# Training settings of every trained baseline: fixed here, so that changes of the model's recipe do not change them.
_PEER_TRAIN: Mapping[str, Any] = {
    "epochs": 40, "batch": 32, "lr": 1e-3, "schedule": "one_cycle", "average": 0.0, "patience": 5,
    "checkpoint_every": 500, "validate_windows": None, "max_steps": None, "station_dropout": 0.0,
}  # fmt: skip


Recipe = Literal["default", "paper", "former"]


@dataclass(frozen=True, slots=True)
class Training:
    """A training that a model of a table may have instead of the table's: without a cap, unless it ``keeps_cap``."""

    title: str
    recipe: Recipe = "default"
    overrides: tuple[str, ...] = ()
    keeps_cap: bool = False


TRAININGS: Mapping[str, Training] = {
    "recipe_paper": Training("trained as printed", recipe="paper"),
    "recipe_former": Training("former recipe", recipe="former", keeps_cap=True),
    "ten_epochs": Training("ten epochs", overrides=("train.epochs=10",)),
}
# Keys of training that decide the numbers of a trained baseline, in the names of `Config.identity`.
_PEER_IDENTITY = (*_PEER_TRAIN, "weight_decay", "clip", "seed")


@dataclass(frozen=True, slots=True)
class Task:
    """One cell of a table: a model under a protocol, at a horizon, from a seed (None: it needs none).

    ``overrides`` are settings as ``section.key=value``, for all models alike; ``cap`` is CPU seconds. With
    ``leave_out`` = n, one station in n is left out of training, and forecasts at those stations are scored.
    """

    protocol: str
    hours: int
    model: str
    seed: int | None = None
    recipe: Recipe = "default"
    overrides: tuple[str, ...] = ()
    cap: float | None = None
    leave_out: int = 0

    @property
    def name(self) -> str:
        """File name of the cell without the suffix."""
        model, _, training = self.model.partition(":")
        training = training or (f"recipe_{self.recipe}" if self.recipe != "default" else "")
        trained = f"-{training}" if training else ""
        seed = "" if self.seed is None else f"-seed{self.seed}"
        unseen = f"-left_out{self.leave_out}" if self.leave_out else ""
        return f"{self.protocol}-{self.hours}h-{model}{trained}{unseen}{seed}"

    def of(self, model: str) -> Task:
        """Return the same cell of another model."""
        return replace(self, model=model, seed=self.seed if contestant(model).is_seeded else None)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as JSON-ready values, for a worker process."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A model by name; ``peer`` is the baseline, None for StationPDE; ``training`` is None for that of the table."""

    name: str
    title: str
    peer: Baseline | None = None
    variant: str = "default"
    parts: tuple[str, ...] = ()
    training: Training | None = None

    @property
    def kind(self) -> str:
        """``ours``, ``rule``, ``closed_form``, ``trained`` or ``iterated``."""
        return "ours" if self.peer is None else self.peer.kind

    @property
    def learns(self) -> bool:
        """Whether it, or one of its members, is trained or fitted within the cap of CPU time."""
        return self.kind in ("ours", "trained", "iterated") or any(contestant(name).learns for name in self.members)

    is_seeded = learns

    @property
    def members(self) -> tuple[str, ...]:
        """Baselines that it combines."""
        return () if self.peer is None else self.peer.members

    def missing(self) -> str | None:
        """Return why the model cannot run here, or None."""
        if self.peer is None:
            return None
        reasons = [self.peer.missing(), *(contestant(name).missing() for name in self.members)]
        return next((reason for reason in reasons if reason), None)

    def task(self, task: Task) -> Task:
        """Return a cell of the table with this model's own training in place of the table's, if it has one."""
        if self.training is None:
            # A peer has no recipe but the paper's: its cells serve beside every other.
            return task if self.peer is None or task.recipe == "paper" else replace(task, recipe="default")
        overrides = (*task.overrides, *self.training.overrides)
        cap = task.cap if self.training.keeps_cap else None
        return replace(task, recipe=self.training.recipe, overrides=overrides, cap=cap)

    def config(self, task: Task) -> Config:
        """Build the whole configuration of a cell, before the search on validation."""
        rules = protocol(task.protocol)
        config = Config.preset("weather2k", self.variant, task.recipe)
        if self.peer is not None:
            recipe = config.train.model_dump() | {"station_dropout": 0.0} if task.recipe == "paper" else {}
            train = {**_PEER_TRAIN, **self.peer.train, **recipe}
            config = Config.parse({**config.tree(), "train": train}, where=self.name)
        config = rules.over(config, task.hours, task.overrides).ablated(*self.parts)
        # One thread a cell: the same sums whatever runs beside it, and CPU times that can be compared.
        return config.with_overrides([f"train.seed={task.seed or 0}", "train.threads=1"])

    def settings(self, task: Task, fingerprint: str) -> str:
        """Return the SHA-256 of everything that decides the cell's numbers, as far as it is known beforehand.

        It is made of `Config.identity`, so that it does not change when a key comes or goes at its former value.
        """
        config = self.config(task)
        tree = config.identity()
        tree["data"].pop("quality", None)  # the fingerprint is that of the values in use
        if self.kind == "trained":
            changed = self._changed(config, task)
            tree = {"data": tree["data"], "train": {key: tree["train"][key] for key in _PEER_IDENTITY}, **changed}
        elif self.kind == "iterated":
            tree = {"data": tree["data"], "train": {"seed": tree["train"]["seed"]}}
        elif self.peer is not None:
            tree = {key: tree[key] for key in ("data", "grid", "lift", "pde")}
        members = {name: contestant(name).settings(task.of(name), fingerprint) for name in self.members}
        about: dict[str, Any] = {"model": self.name, "data": fingerprint, "config": tree, "members": members}
        if self.learns:
            about |= {"recipe": task.recipe, "cap": task.cap}
        if task.leave_out:
            about["leave_out"] = task.leave_out
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()

    def _changed(self, config: Config, task: Task) -> dict[str, Any]:
        """Return the sections that a trained peer reads beside data and training, where an override changed them.

        Cells without such an override keep the settings that they had before the peer read a section.
        """
        assert self.peer is not None
        tree, plain = config.identity(), self.config(replace(task, overrides=())).identity()
        sections = set(self.peer.reads)
        if "loss" in sections and config.loss.residual == 0.0:  # of the loss, it reads the residual alone
            sections -= {"loss", "lift", "model", "pde"}
        return {name: tree[name] for name in sorted(sections) if tree[name] != plain[name]}

    def builder(self, **choices: Any) -> Callable[[Config, WindowSource], Learner]:
        """Return a function that builds the learner or forecaster, with the choices made on validation."""
        from stationpde.training import default_build

        if self.peer is None:
            return default_build
        make = self.peer.make
        return lambda config, source: make(config, source, **choices)


def contestant(name: str) -> Contestant:
    """Look up a model by name; the error for an unknown name suggests the nearest."""
    model, colon, chosen = name.partition(":")
    if colon:
        trained = contestant(model)
        _require_training(name, trained, chosen)
        training = TRAININGS[chosen]
        title = f"{trained.title.removesuffix(')')}, {training.title})" if "(" in trained.title else (
            f"{trained.title} ({training.title})")  # fmt: skip
        return replace(trained, title=title, training=training)
    variant, _, without = name.partition("-")
    if variant in OURS:
        parts = tuple(filter(None, without.split("+")))
        _require_parts(variant, parts)
        title = _TITLES[variant] + "".join(f", {part.replace('_', ' ')}" for part in parts)
        return Contestant(name, title, None, variant, parts)
    peer = baseline(name)
    return Contestant(name, peer.title, peer)


def _require_training(name: str, model: Contestant, training: str) -> None:
    if training not in TRAININGS:
        near = difflib.get_close_matches(training, TRAININGS, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"no training '{training}' ('{name}')", code="SPDE-B006", do=f"{hint}trainings: {', '.join(TRAININGS)}"
        )
    if model.peer is not None:
        raise UsageError(
            f"'{name}': trainings of their own are those of StationPDE, '{model.name}' is a peer", code="SPDE-B006",
            do=f"--models {model.name}",
        )  # fmt: skip


@cache
def _require_parts(variant: str, parts: tuple[str, ...]) -> None:
    """Refuse, before training, parts that neither the model nor its equations have."""
    from pde_ops import Grid2D
    from stationpde.model import system_of

    if set(parts) <= set(ABLATIONS):
        return
    grid = Grid2D.from_latlon(np.linspace(0.0, 3.0, 4), np.linspace(0.0, 3.0, 4))  # any: terms do not depend on it
    terms = sorted(system_of(Config.preset("weather2k", variant), grid).term_names)
    for part in parts:
        if part not in (*ABLATIONS, *terms):
            near = difflib.get_close_matches(part, [*ABLATIONS, *terms], n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise UsageError(
                f"'{variant}' has no part '{part}'", code="SPDE-B006",
                do=f"{hint}parts: {', '.join(ABLATIONS)}; terms of its equations: {', '.join(terms)}",
            )  # fmt: skip


def known_models() -> list[str]:
    """List the models that ``all`` stands for, in the order of tables."""
    return [*names(), *OURS]
