"""The configuration of a run: one frozen tree, read from presets, TOML files and dotted overrides.

>>> config = Config.preset("weather2k", variant="paper").with_overrides(["train.epochs=3", "grid.height=16"])

An unknown key is an error that suggests the nearest one; the resolved tree is saved with every run.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w
from pydantic import BaseModel, ValidationError, model_validator

from stationpde.config_sections import (
    DataSection,
    GridSection,
    LiftSection,
    LossSection,
    ModelSection,
    PDESection,
    Section,
    TrainSection,
)
from stationpde.errors import ConfigError

__all__ = ["ABLATIONS", "PRESETS", "VARIANTS", "Config"]

PRESETS = ("weather2k", "meteonet", "demo", "tiny")
VARIANTS = ("default", "paper")
RECIPES = ("default", "paper")
_GROW_UNDER_EULER = ("advection_upwind3", "advection_central2", "advection_central4")
# Larger files are no configuration.
_MOST_BYTES = 1 << 20

ABLATIONS: Mapping[str, dict[str, Any]] = {
    "no_pde": {"model": {"pde_branch": False}},
    "no_data": {"model": {"data_branch": False}},
    "no_station_head": {"model": {"station_head": False}},
    # Alone, the field goes on learning for as long as it may.
    "no_guide": {"model": {"guide": "none"}, "train": {"epochs": 10}},
    "no_obs_loss": {"loss": {"observed": 0.0}},
    "no_diffusion": {"pde": {"without": ["laplacian"]}},
    "no_closure": {"model": {"closure": False}},
    "no_last_day": {"model": {"guide_reference": "climatology"}},
}


class Config(Section):
    """Everything that decides what a run computes."""

    variant: Literal["default", "paper"] = "default"
    """Name of the model variant the sections started from."""
    data: DataSection = DataSection()
    grid: GridSection = GridSection()
    lift: LiftSection = LiftSection()
    model: ModelSection = ModelSection()
    pde: PDESection = PDESection()
    loss: LossSection = LossSection()
    train: TrainSection = TrainSection()

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        if self.data.step_seconds % self.pde.dt:
            raise ValueError(f"pde.dt = {self.pde.dt:g} s does not divide data.step = {self.data.step}")
        if self.pde.pressure_gradient and self.model.state == "raw" and self.model.pressure == "surface":
            raise ValueError("pde.pressure_gradient needs model.state = 'anomaly' or model.pressure = 'anomaly'")
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
        """``pde.terms`` as they act: on departures, held over an interval, and radiation where the sun is known."""
        if self.model.state != "anomaly" or self.model.closure_every != "interval":
            return ()
        return tuple(term for term in self.pde.terms if term != "radiation" or self.model.solar)

    @property
    def is_guided(self) -> bool:
        """Whether there is a guide: it guesses departures."""
        return self.model.guide == "linear" and self.model.state == "anomaly"

    @property
    def substeps(self) -> int:
        """K: PDE sub-steps in a forecast interval."""
        return round(self.data.step_seconds / self.pde.dt)

    @classmethod
    def preset(cls, name: str = "weather2k", variant: str = "default", recipe: str = "default") -> Config:
        """A preset (data and size) with a variant (equations and parts) and a recipe (optimiser)."""
        _known(name, PRESETS, "preset", "SPDE-C004")
        _known(variant, VARIANTS, "variant", "SPDE-C004")
        _known(recipe, RECIPES, "recipe", "SPDE-C004")
        layers = [_shipped(f"variant_{variant}")] if variant != "default" else []
        layers += [_shipped(f"recipe_{recipe}")] if recipe != "default" else []
        tree: dict[str, Any] = {"variant": variant}
        for layer in [*layers, _shipped(name)]:
            tree = _merged(tree, layer)
        return cls.parse(tree, where=f"preset {name}")

    @classmethod
    def read(cls, path: str | Path, base: Config | None = None) -> Config:
        """A TOML file on top of ``base``; keys that it does not name keep their value."""
        given = _toml(Path(path))
        tree = base.tree() if base is not None else {}
        if base is None and given.get("variant", "default") == "paper":
            tree = _shipped("variant_paper")
        return cls.parse(_merged(tree, given), where=str(path))

    @classmethod
    def parse(cls, tree: Mapping[str, Any], where: str = "configuration") -> Config:
        """Check a nested mapping; all that is wrong is reported together."""
        try:
            return cls.model_validate(tree)
        except ValidationError as problem:
            raise ConfigError(
                "; ".join(_explained(problem)), code="SPDE-C001", where=where, do="stationpde config show"
            ) from None

    def with_overrides(self, pairs: Iterable[str]) -> Config:
        """Changes written as ``section.key=value``; values are TOML, bare words are text."""
        tree = self.tree()
        for pair in pairs:
            key, found, text = pair.partition("=")
            if not found or not key.strip():
                raise ConfigError(f"'{pair}' is not of the form key=value", code="SPDE-C002", do="--set train.epochs=3")
            place = key.strip().split(".")
            tree = _merged(tree, _nested(place, _value(text.strip(), place)), replace=True)
        return Config.parse(tree, where="--set")

    def ablated(self, *names: str) -> Config:
        """Without the named parts: `ABLATIONS`, or any operator of the equations."""
        tree = self.tree()
        for name in names:
            if name in ABLATIONS:
                change = ABLATIONS[name]
            else:
                change = {"pde": {"without": [*tree["pde"]["without"], name]}}
            if "without" in change.get("pde", {}):
                change = {"pde": {"without": sorted({*tree["pde"]["without"], *change["pde"]["without"]})}}
            tree = _merged(tree, change, replace=True)
        return Config.parse(tree, where="ablation")

    def tree(self) -> dict[str, Any]:
        """The configuration as nested plain values."""
        return self.model_dump(mode="json")

    def to_toml(self) -> str:
        """The resolved configuration; what is None is left out, as TOML has no such value."""
        return tomli_w.dumps(_without_none(self.tree()))

    def hash(self) -> str:
        """SHA-256 that stands for the configuration."""
        return hashlib.sha256(json.dumps(self.tree(), sort_keys=True).encode()).hexdigest()

    def diff(self, other: Config) -> list[str]:
        """Lines ``key: mine -> theirs`` for everything that differs."""
        mine, theirs = dict(_leaves(self.tree())), dict(_leaves(other.tree()))
        keys = [*mine, *(key for key in theirs if key not in mine)]
        return [f"{k}: {mine.get(k)!r} -> {theirs.get(k)!r}" for k in keys if mine.get(k) != theirs.get(k)]


def _known(name: str, names: Iterable[str], what: str, code: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, list(names), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"no {what} '{name}'{hint} Known: {', '.join(names)}", code=code)


def _shipped(name: str) -> dict[str, Any]:
    text = resources.files("stationpde").joinpath("presets", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def _toml(path: Path) -> dict[str, Any]:
    where = str(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path.name} is larger than 1 MiB: no configuration", code="SPDE-C003", where=where)
        text = path.read_bytes().decode("utf-8")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path.name}", code="SPDE-C003", where=where, do="stationpde config init"
        ) from None
    except UnicodeDecodeError as problem:
        line = problem.object[: problem.start].count(b"\n") + 1
        raise ConfigError(f"line {line} is not UTF-8 text", code="SPDE-C003", where=where) from None
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ConfigError(f"not valid TOML: {problem}", code="SPDE-C003", where=where) from None


def _merged(base: Mapping[str, Any], change: Mapping[str, Any], replace: bool = False) -> dict[str, Any]:
    """``change`` laid over ``base``, table by table; with ``replace`` free-form tables are replaced, not joined."""
    made = dict(base)
    for key, value in change.items():
        if isinstance(value, Mapping) and isinstance(made.get(key), Mapping) and not (replace and key in _FREE):
            made[key] = _merged(made[key], value, replace)
        else:
            made[key] = value
    return made


_FREE = frozenset({"missing", "state_weights", "observed_weights"})


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _value(text: str, place: list[str]) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        # "none" is no value, unless it is the name of a choice, as in pde.rule.
        return None if text in ("none", "None") and text not in get_args(_annotation(place)) else text


def _without_none(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return tree


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _explained(problem: ValidationError) -> Iterator[str]:
    """One sentence for each finding, with the nearest name for an unknown key."""
    for found in problem.errors()[:20]:
        place = [str(part) for part in found["loc"]]
        dotted = ".".join(place)
        if found["type"] == "extra_forbidden":
            near = difflib.get_close_matches(place[-1], _keys(place[:-1]), n=1)
            hint = f"; did you mean '{'.'.join([*place[:-1], near[0]])}'?" if near else ""
            yield f"unknown key '{dotted}'{hint}"
        else:
            message = found["msg"].removeprefix("Value error, ")
            shown = "" if found["type"] == "value_error" else f", not {found['input']!r}"
            yield f"{dotted}: {message}{shown}" if dotted else message


def _annotation(place: list[str]) -> Any:
    """The type that a key is declared with; None for a key that is not."""
    kind: Any = Config
    for part in place:
        kind = kind.model_fields[part].annotation if part in getattr(kind, "model_fields", {}) else None
    return kind


def _keys(place: list[str]) -> list[str]:
    kind = _annotation(place)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []
