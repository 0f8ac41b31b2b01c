"""Configuration of a run: one frozen tree, read from presets, TOML files and dotted overrides.

>>> config = Config.preset("weather2k", variant="paper").with_overrides(["train.epochs=3", "grid.height=16"])

An unknown key is an error that suggests the nearest one, a removed key (`stationpde.config.removed`) one that says what
happened to it. The resolved tree is saved with every run, and `Config.from_saved` reads it again.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w
from pydantic import BaseModel, ValidationError, model_validator

from stationpde.config import removed
from stationpde.config.layers import leaves, merged, nested, read_toml, shipped, without_none
from stationpde.config.sections import (
    DataSection,
    GridSection,
    LiftSection,
    LossSection,
    ModelSection,
    PDESection,
    Section,
    TrainSection,
)
from stationpde.config.subset import tree_for_record
from stationpde.errors import ConfigError

__all__ = ["ABLATIONS", "PRESETS", "RECIPES", "VARIANTS", "Config"]

PRESETS = ("weather2k", "meteonet", "demo", "tiny")
VARIANTS = ("default", "field", "paper")
RECIPES = ("default", "paper", "former")
_GROW_UNDER_EULER = ("advection_upwind3", "advection_central2", "advection_central4")
_LARGEST_STATE = 1 << 40
_MOST_SUBSTEPS = 100_000
# Problems that one error message lists.
_MOST_PROBLEMS = 60

ABLATIONS: Mapping[str, dict[str, Any]] = {
    "no_pde": {"model": {"pde_branch": False}},
    "no_data": {"model": {"data_branch": False}},
    "no_station_head": {"model": {"station_head": False}},
    # Without a guide the field gains from every further epoch.
    "no_guide": {"model": {"guide": "none"}, "train": {"epochs": 10}},
    "no_obs_loss": {"loss": {"observed": 0.0}},
    "no_diffusion": {"pde": {"without": ["laplacian"]}},
    "no_closure": {"model": {"closure": False}},
    "no_last_day": {"model": {"guide_reference": "climatology"}},
    # The weight of PhyDL-NWP's second stage.
    "with_residual": {"loss": {"residual": 0.01}},
}


class Config(Section):
    """Everything that decides what a run computes."""

    variant: Literal["default", "field", "paper"] = "default"
    """Name of the model variant that the sections started from."""
    data: DataSection = DataSection()
    grid: GridSection = GridSection()
    lift: LiftSection = LiftSection()
    model: ModelSection = ModelSection()
    pde: PDESection = PDESection()
    loss: LossSection = LossSection()
    train: TrainSection = TrainSection()

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        _require_size(self)
        if self.data.step_seconds % self.pde.dt:
            raise ValueError(f"pde.dt = {self.pde.dt:g} s does not divide data.step = {self.data.step}")
        if self.pde.pressure_gradient and self.model.state == "raw":
            raise ValueError("pde.pressure_gradient needs model.state = 'anomaly'")
        if self.steered_by is not None and self.model.state == "raw":
            raise ValueError("upper_air in pde.terms needs model.state = 'anomaly'")
        if self.steered_by is not None and self.pde.advection == "semi_lagrangian":
            raise ValueError(
                "pde.advection = 'semi_lagrangian' carries all fields with one wind, with upper_air in pde.terms each "
                "has its own: take advection_upwind1"
            )
        if self.pde.advection == "semi_lagrangian" and self.pde.rule != "none":
            raise ValueError(
                f"pde.rule = '{self.pde.rule}' scales Euler increments; semi_lagrangian has none: take 'none'"
            )
        if self.pde.advection in _GROW_UNDER_EULER and self.pde.rule == "none":
            raise ValueError(
                f"pde.advection = '{self.pde.advection}' grows under plain Euler steps; "
                "take pde.rule = 'limiter', or advection_upwind1 or semi_lagrangian"
            )
        return self

    @property
    def extended_terms(self) -> tuple[str, ...]:
        """Return those of ``pde.terms`` that are held over an interval and act: on departures, radiation with sun."""
        if self.model.state != "anomaly" or self.model.closure_form != "held":
            return ()
        lasting = [term for term in self.pde.terms if not term.startswith("upper_air")]
        return tuple(term for term in lasting if term != "radiation" or "sun" in self.model.inputs)

    @property
    def steered_by(self) -> Literal["own wind", "other wind"] | None:
        """Return which wind aloft steers the surface: its own, for a placebo that of another day; None for none."""
        if "upper_air_placebo" in self.pde.terms:
            return "other wind"
        return "own wind" if "upper_air" in self.pde.terms else None

    @property
    def is_guided(self) -> bool:
        """Whether there is a guide; it guesses departures."""
        return self.model.guide == "linear" and self.model.state == "anomaly"

    @property
    def substeps(self) -> int:
        """Return K, the number of PDE sub-steps in a forecast interval."""
        return round(self.data.step_seconds / self.pde.dt)

    @classmethod
    def preset(cls, name: str = "weather2k", variant: str = "default", recipe: str = "default") -> Config:
        """Return a preset (data and size) with a variant (equations and parts) and a recipe (optimiser)."""
        _require_name(name, PRESETS, "preset")
        _require_name(variant, VARIANTS, "variant")
        _require_name(recipe, RECIPES, "recipe")
        layers = [shipped(f"variant_{variant}")] if variant != "default" else []
        layers += [shipped(f"recipe_{recipe}")] if recipe != "default" else []
        tree: dict[str, Any] = {"variant": variant}
        for layer in [*layers, shipped(name)]:
            tree = merged(tree, layer)
        return cls.parse(tree, where=f"preset {name}")

    @classmethod
    def read(cls, path: str | Path, base: Config | None = None) -> Config:
        """Read a TOML file on top of ``base``; keys that it does not name keep their value."""
        typed = read_toml(Path(path))
        tree = base.tree() if base is not None else {}
        if base is None and typed.get("variant", "default") in VARIANTS[1:]:
            tree = shipped(f"variant_{typed['variant']}")
        return cls.parse(merged(tree, typed), where=str(path))

    @classmethod
    def parse(cls, tree: Mapping[str, Any], where: str = "configuration") -> Config:
        """Check a nested mapping as a user wrote it; all problems are reported together.

        Raises
        ------
        ConfigError
            If a key is unknown or was removed, or a value does not fit.
        """
        gone = removed.explanations(tree)
        try:
            config = cls.model_validate(tree)
        except ValidationError as problem:
            listed = "; ".join([*gone, *_explained(problem)])
            if gone:
                raise ConfigError(
                    f"a key is no longer there: {listed}", code="SPDE-C005", where=where,
                    do="docs/configuration.md lists removed keys, `stationpde config show` the present ones",
                ) from None  # fmt: skip
            raise ConfigError(listed, code="SPDE-C001", where=where, do="stationpde config show") from None
        return config

    @classmethod
    def from_saved(cls, tree: Mapping[str, Any], where: str = "configuration") -> Config:
        """Read the tree that was saved with a run, by this version or an earlier one.

        A key that was removed since is accepted at the value that became fixed.

        Raises
        ------
        ConfigError
            If a removed key has another value, or the tree is none of a configuration.
        """
        config = cls.parse(removed.from_saved_tree(tree), where)
        conflicts = removed.saved_conflicts(tree, config.tree())
        if conflicts:
            raise ConfigError(
                f"the run has a value that is no longer offered: {'; '.join(conflicts)}", code="SPDE-C006", where=where,
                do="use the version that the run was trained with",
            )  # fmt: skip
        return config

    def with_overrides(self, pairs: Iterable[str]) -> Config:
        """Return the configuration with changes ``section.key=value``; values are TOML, bare words are text."""
        tree = self.tree()
        listed = (pairs,) if isinstance(pairs, str) or not isinstance(pairs, Iterable) else pairs
        for pair in listed:
            if not isinstance(pair, str):
                raise ConfigError(f"{pair!r} is no text of the form key=value", code="SPDE-C002",
                                  do="write it as train.epochs=3")  # fmt: skip
            key, equals, text = pair.partition("=")
            if not equals or not key.strip():
                raise ConfigError(
                    f"'{pair}' is not of the form key=value", code="SPDE-C002", do="write it as train.epochs=3"
                )
            place = key.strip().split(".")
            tree = merged(tree, nested(place, _value(text.strip(), place)), replace=True)
        return Config.parse(tree, where="--set")

    def ablated(self, *names: str) -> Config:
        """Return the configuration without the named parts: `ABLATIONS`, or any operator of the equations."""
        tree = self.tree()
        for name in names:
            if name in ABLATIONS:
                change = ABLATIONS[name]
            else:
                change = {"pde": {"without": [*tree["pde"]["without"], name]}}
            if "without" in change.get("pde", {}):
                change = {"pde": {"without": sorted({*tree["pde"]["without"], *change["pde"]["without"]})}}
            tree = merged(tree, change, replace=True)
        return Config.parse(tree, where="ablation")

    def fitted_to(self, reference: Collection[str]) -> Config:
        """Return the configuration for a record some variables of which are a reference and no observations.

        They are not scored; see `stationpde.config.subset`.

        Raises
        ------
        ConfigError
            If nothing is left to score.
        """
        if set(reference) <= set(self.data.missing):
            return self
        tree = tree_for_record(self.tree(), reference)
        if not tree["data"]["scored"]:
            raise ConfigError(
                f"the network observes none of what is scored: {', '.join(self.data.scored)}", code="SPDE-C001",
                where="data.scored", do="data.scored names variables that it observes",
            )  # fmt: skip
        return Config.parse(tree, where="data.missing")

    def for_stations_only(self) -> Config:
        """Return the configuration that forecasts at stations from the guide alone: no field is evolved or trained."""
        if self.model.guide == "none":
            raise ConfigError(
                "a forecast at stations alone is made of first guesses, and this configuration has none",
                code="SPDE-C001", where="--stations-only",
                do="--variant default" if self.variant != "default" else "leave out what takes the guide away: "
                "--ablate no_guide, --set model.guide=none, or that line of the file",
            )  # fmt: skip
        change = {
            "model": {"pde_branch": False, "data_branch": False, "station_head": False},
            "train": {"epochs": 1, "max_steps": 1},
        }
        return Config.parse(merged(self.tree(), change), where="--stations-only")

    def tree(self) -> dict[str, Any]:
        """Return the configuration as nested plain values."""
        return self.model_dump(mode="json")

    def identity(self) -> dict[str, Any]:
        """Return the tree that hashes are made of: the same whether a key at its former value is there or not."""
        return removed.identity_tree(self.tree())

    def to_toml(self) -> str:
        """Write the configuration as TOML; what is None is left out, as TOML has no such value."""
        return tomli_w.dumps(without_none(self.tree()))

    def hash(self) -> str:
        """Return the SHA-256 of `identity`."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()

    def diff(self, other: Config) -> list[str]:
        """Return a line ``key: mine -> theirs`` for everything that differs."""
        mine, theirs = dict(leaves(self.tree())), dict(leaves(other.tree()))
        keys = [*mine, *(key for key in theirs if key not in mine)]
        return [f"{k}: {mine.get(k)!r} -> {theirs.get(k)!r}" for k in keys if mine.get(k) != theirs.get(k)]


def _require_size(config: Config) -> None:
    """Refuse sizes that are possible one by one, and together ask for more memory or steps than a run can have."""
    grid, model = config.grid, config.model
    # A grid without a number of columns is seldom wider than twice its height.
    cells = grid.height * (grid.width if isinstance(grid.width, int) else 2 * grid.height)
    width = max(model.hidden, model.encoder_hidden, 5 * config.data.history)
    needed = 4 * config.train.batch * cells * width
    if needed > _LARGEST_STATE:
        raise ValueError(
            f"a batch would need {needed:,} bytes for one layer alone: train.batch = {config.train.batch} on a grid of "
            f"{cells:,} cells with {width} channels; make train.batch, grid.height or model.encoder_hidden smaller"
        )
    if config.data.step_seconds / config.pde.dt > _MOST_SUBSTEPS:
        raise ValueError(f"pde.dt = {config.pde.dt:g} s makes more than {_MOST_SUBSTEPS:,} sub-steps; make it longer")


def _require_name(name: str, names: Iterable[str], what: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, list(names), n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise ConfigError(f"no {what} '{name}'", code="SPDE-C004", do=f"{hint}choose one of {', '.join(names)}")


def _value(text: str, place: list[str]) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        # "none" is no value, unless it is the name of a choice, as in pde.rule.
        return None if text in ("none", "None") and text not in get_args(_annotation(place)) else text


def _explained(problem: ValidationError) -> list[str]:
    """List one sentence for each problem, with the nearest name for an unknown key; removed keys have theirs."""
    sentences: list[tuple[str, str]] = []  # key, sentence
    for error in problem.errors()[:_MOST_PROBLEMS]:
        place = [str(part) for part in error["loc"] if not _is_choice(part)]
        dotted = ".".join(place)
        if error["type"] == "extra_forbidden":
            if dotted not in removed.REMOVED:
                near = difflib.get_close_matches(place[-1], _keys(place[:-1]), n=1)
                hint = f"; did you mean '{'.'.join([*place[:-1], near[0]])}'?" if near else ""
                sentences.append(("", f"unknown key '{dotted}'{hint}"))
            continue
        message = error["msg"].removeprefix("Value error, ")
        shown = "" if error["type"] == "value_error" else f", not {error['input']!r}"
        if dotted and sentences and sentences[-1][0] == dotted:  # another form that a key of several forms may have
            message = f"{sentences.pop()[1].removesuffix(shown)}, or {message[0].lower()}{message[1:]}"
        elif dotted:
            message = f"{dotted}: {message}"
        sentences.append((dotted, f"{message}{shown}"))
    return [sentence for _, sentence in sentences]


def _is_choice(part: int | str) -> bool:
    """Return whether a part of a place names one of several forms of a value, and no key or number of an element."""
    return isinstance(part, str) and (part in ("int", "float", "bool", "str") or bool(re.search(r"[\[\]-]", part)))


def _annotation(place: list[str]) -> Any:
    """Return the type that a key is declared with; None for a key that is not declared."""
    kind: Any = Config
    for part in place:
        kind = kind.model_fields[part].annotation if part in getattr(kind, "model_fields", {}) else None
    return kind


def _keys(place: list[str]) -> list[str]:
    kind = _annotation(place)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []
