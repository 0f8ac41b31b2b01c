"""Keys that a configuration had once: their fixed value, what happened to each, and what to type instead.

A removed key that is typed is an error that explains it (`explanations`). A run that was saved with one opens if the
value is the fixed one (`from_saved_tree`). A hash of a configuration is made of removed keys as well, and of added keys
only while they are not at their default (`identity_tree`): it is the same before and after a key comes or goes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stationpde.config.sections import INPUTS

__all__ = ["ADDED", "REMOVED", "RemovedKey", "explanations", "from_saved_tree", "identity_tree", "saved_conflicts"]

Tree = Mapping[str, Any]
# `DEFAULT_RHO` of pde_ops, which would import torch; a test holds them equal.
_RULE_SHARES = {"range": 0.05, "weathergft": 0.05, "limiter": 0.25}


@dataclass(frozen=True, slots=True)
class RemovedKey:
    """A key that is gone.

    Parameters
    ----------
    value : the value that became fixed, or a function that reads it from the keys of today
    happened : what became of the key, after "`key` was removed:"
    do : what to do instead
    decides : whether the key decided what a run computes; a saved run may have any value of one that did not
    spelled_out : for a fixed value of None, the number that it stood for; a saved run may have it written out
    """

    value: Any | Callable[[Tree], Any]
    happened: str
    do: str = "leave it out"
    decides: bool = True
    spelled_out: Callable[[Tree], Any] | None = None

    def fixed(self, tree: Tree) -> Any:
        """Return the value that the key would have beside the keys of ``tree``."""
        return self.value(tree) if callable(self.value) else self.value

    def means_the_same(self, saved: Any, tree: Tree) -> bool:
        """Tell whether a saved value is the fixed one, written as None or as the number that None stood for."""
        return bool(saved == self.fixed(tree) or (self.spelled_out is not None and saved == self.spelled_out(tree)))


def _has_input(name: str) -> Callable[[Tree], bool]:
    return lambda tree: name in tree["model"]["inputs"]


def _input(name: str, value: Callable[[Tree], Any] | None = None) -> RemovedKey:
    return RemovedKey(
        value or _has_input(name),
        f"it is the element '{name}' of model.inputs now",
        f"list what is on; without it: --set 'model.inputs={json.dumps([other for other in INPUTS if other != name])}'",
    )


def _closure(value: Callable[[Tree], Any]) -> RemovedKey:
    return RemovedKey(
        value,
        "model.closure_form decides closed channels, moments of evaluation and update factors of the closure together",
        "--set model.closure_form=printed or held",
    )


def _is_printed(tree: Tree) -> bool:
    return bool(tree["model"]["closure_form"] == "printed")


def _constant(value: Any, where: str, do: str = "leave it out") -> RemovedKey:
    return RemovedKey(value, f"it is fixed at {value!r} ({where})", do)


REMOVED: Mapping[str, RemovedKey] = {
    "grid.margin": _constant(0.05, "GridSpec.around: part of the extent added on every side"),
    "grid.least_cell_km": RemovedKey(
        lambda tree: 0.0 if tree["variant"] == "paper" else 8.0,
        "cells are at least 8 km wide, except in the paper's variant",
        "give the number of rows with grid.height",
    ),
    "lift.power": _constant(1.0, "LiftSettings.power"),
    "lift.epsilon_m": _constant(1.0, "LiftSettings.epsilon_m"),
    "model.pressure": _constant("surface", "raw pressure is as observed", "take model.state = 'anomaly'"),
    "model.saturation": _constant("ambaum", "Ambaum (2020)"),
    "model.normalisation": RemovedKey(
        lambda tree: "station_wind" if tree["model"]["state"] == "anomaly" else "channel",
        "it follows from model.state: departures scale the wind by station, the raw state by channel",
        "choose model.state",
    ),
    "model.gate_bias": _constant(-2.0, "bias of the gates at the start"),
    "model.router_bias": _constant(0.0, "bias of the router at the start"),
    "model.candidate_scale": _constant(0.1, "τ_c of the data branch at the start"),
    "model.motion_limit": _constant(4.0, "cells that the data branch moves in one interval at most"),
    "model.readout": _input("departure", lambda tree: "anchored" if _has_input("departure")(tree) else "bilinear"),
    "model.head_sees_field": _input("encoder"),
    "model.head_sees_surroundings": _input("surroundings"),
    "model.station_embedding": _input("station", lambda tree: 8 if _has_input("station")(tree) else 0),
    "model.solar": _input("sun"),
    "model.slope": _input("slope"),
    "model.guide_share": _constant(0.8, "share of the guide before it is calibrated"),
    "model.guide_calibration": _constant("validation", "shares are fitted on validation after every epoch"),
    "model.closure_wind": _closure(lambda tree: not _is_printed(tree)),
    "model.closure_every": _closure(lambda tree: "substep" if _is_printed(tree) else "interval"),
    "pde.gamma": _closure(lambda tree: "one" if _is_printed(tree) else "split"),
    "pde.rho": RemovedKey(
        None,
        "each rule has its fixed share: 0.05, for the limiter 0.25",
        spelled_out=lambda tree: _RULE_SHARES.get(tree["pde"]["rule"]),
    ),
    "pde.exact_flows": _constant(False, "sub-steps are short enough", "compile a system of pde_ops with exact_flows"),
    "pde.diffusion_number": _constant(0.01, "κΔt/Δx² at the start"),
    "pde.friction": _constant(2e-5, "r_m at the start, 1/s; higher where pde.dt needs it"),
    "pde.condensation": _constant(1.0 / 3600.0, "λ_c at the start, 1/s; lower where pde.dt needs it"),
    "pde.latent_heating": _constant(False, "condensation does not warm θ", "use latent_heating of pde_ops in a system"),
    "loss.state_weights": _constant({}, "every scored variable counts 1", "choose data.scored"),
    "loss.observed_weights": _constant({}, "every scored variable counts 1", "choose data.scored"),
    "train.weight_decay": _constant(1e-4, "of AdamW"),
    "train.clip": _constant(1.0, "largest norm of the gradient"),
    "train.workers": RemovedKey(0, "batches are gathered in the training process", decides=False),
    "train.collective_timeout": RemovedKey("5min", "ranks wait five minutes for each other", decides=False),
}

# Keys added after configurations were first hashed, and the value at which they change nothing.
ADDED: Mapping[str, Any] = {
    "data.quality": "full",
    "data.extra": [],
    "model.guide_local": "single",
    "model.surroundings": "fixed",
    "model.guide_rows": "thinned",
    "model.guide_season": "none",
    "model.simple_members": False,
    "model.shares": "half_way",
    "pde.update_start": 1.0,
    "loss.residual": 0.0,
    "train.calibrate": True,
}
# Keys that stand for removed ones: a hash has those instead.
_REPLACEMENTS = ("model.inputs", "model.closure_form")


def explanations(tree: Tree) -> list[str]:
    """Return a sentence for every removed key in a tree that was typed: what happened to it, what to do."""
    keys = [key for key in _dotted(tree) if key in REMOVED]
    return [f"'{key}' was removed: {REMOVED[key].happened}; {REMOVED[key].do}" for key in keys]


def from_saved_tree(saved: Tree) -> dict[str, Any]:
    """Return a saved tree in the keys of today; `saved_conflicts` says whether it means the same."""
    tree: dict[str, Any] = {
        name: {key: value for key, value in part.items() if f"{name}.{key}" not in REMOVED}
        if isinstance(part, Mapping) else part
        for name, part in saved.items()
    }  # fmt: skip
    former = {key: saved[key.partition(".")[0]][key.partition(".")[2]] for key in _dotted(saved) if key in REMOVED}
    replaced = {key.partition(".")[2]: value for key, value in former.items()}
    for key, value in ADDED.items():  # the value of today is another one for some
        section, _, name = key.partition(".")
        if isinstance(part := tree.setdefault(section, {}), dict):
            part.setdefault(name, value)
    train = tree.get("train")
    if isinstance(train, dict) and train.get("compile") is False:
        train["compile"] = "auto"  # what it meant before there was `auto`; how, not what
    model = tree.setdefault("model", {})
    if not isinstance(model, dict) or not former:
        return tree
    if "inputs" not in model:
        model["inputs"] = [
            name for name, key in zip(INPUTS, _INPUT_KEYS, strict=True)
            if replaced.get(key, True) not in (False, 0, "bilinear")
        ]  # fmt: skip
    if "closure_form" not in model:
        model["closure_form"] = "printed" if replaced.get("closure_every") == "substep" else "held"
    return tree


_INPUT_KEYS = ("solar", "slope", "head_sees_field", "head_sees_surroundings", "station_embedding", "readout")


def saved_conflicts(saved: Tree, tree: Tree) -> list[str]:
    """Return a sentence for every removed key that a saved tree has at another value than ``tree`` fixes it at."""
    conflicts = []
    for key in _dotted(saved):
        section, _, name = key.partition(".")
        if key in REMOVED and REMOVED[key].decides and not REMOVED[key].means_the_same(saved[section][name], tree):
            fixed = REMOVED[key].fixed(tree)
            conflicts.append(f"'{key}' was removed and is fixed at {fixed!r}, the run has {saved[section][name]!r}")
    return conflicts


def identity_tree(tree: Tree) -> dict[str, Any]:
    """Return the tree that a hash stands for: removed keys put back, added ones left out while they change nothing."""
    parts = {name: dict(part) if isinstance(part, Mapping) else part for name, part in tree.items()}
    for key, removed in REMOVED.items():
        section, _, name = key.partition(".")
        parts[section][name] = removed.fixed(tree)
    for key in _REPLACEMENTS:
        section, _, name = key.partition(".")
        del parts[section][name]
    if parts["train"]["compile"] == "auto":  # how, not what; and the choice of versions without `auto`
        parts["train"]["compile"] = False
    for key, neutral in ADDED.items():
        section, _, name = key.partition(".")
        if parts[section][name] == neutral:
            del parts[section][name]
    return parts


def _dotted(tree: Tree) -> Iterator[str]:
    """Yield the keys of all sections as ``section.key``."""
    for name, part in tree.items():
        if isinstance(part, Mapping):
            yield from (f"{name}.{key}" for key in part)
