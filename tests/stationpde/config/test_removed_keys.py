"""Removed keys: explained where they are typed, accepted in saved runs at their fixed value, and part of every hash."""

import copy
import json

import pytest

from stationpde.config.removed import ADDED, REMOVED, identity_tree
from stationpde.config.tree import VARIANTS, Config
from stationpde.errors import ConfigError

# Hashes of presets before any key was removed, of the default with the recipe of then: cells and runs are recognised
# by them.
HASHES = {
    ("weather2k", "default"): "9a3789f581af087a17d971455d085d21713d70b5d80451f35affb5ccf7e0ebc4",
    ("weather2k", "paper"): "73a4d147e4230b0a008a93bbe99344da34cce56c90ee28b6ee4dd7949e2e3145",
    ("meteonet", "default"): "5a977e792f53d3cc74fb5cc1898488916436627e392f20ef36c5efb1d0958abe",
    ("meteonet", "paper"): "d6c472a080360ffe3c8979d01f1c6b7d41b824d9d350fd063554d259921b8b26",
    ("demo", "default"): "9d1af876d2d9bcd77ea429eabccc9dbc08d04359f7add605538071b959406fd2",
    ("demo", "paper"): "f495b41425bb9dae942dabf60d09afacaa1efd5189b1bca29bff80405533ca3b",
    ("tiny", "default"): "2832e7f8a626ca2c6462804b4b7aed5f8b39df9293b39c1d647023f76e766090",
    ("tiny", "paper"): "1b55f76e637fc26c5bee8b915f6b19d1fd8570c7145579b4d34ae729ee61c5fe",
}


def changed(value):
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return {"x": 1.0} if isinstance(value, dict) else "something else"


@pytest.mark.parametrize("key", REMOVED)
def test_a_removed_key_that_is_typed_is_explained(key, tmp_path):
    config = Config.preset("tiny")
    section, _, name = key.partition(".")
    value = REMOVED[key].fixed(config.tree())
    path = tmp_path / "mine.toml"
    path.write_text(f"[{section}]\n{name} = {'{}' if isinstance(value, dict) else json.dumps(value or 0)}\n")
    typed = (
        lambda: config.with_overrides([f"{key}=1"]),
        lambda: Config.read(path, config),
        lambda: Config.parse({section: {name: value}}),
    )
    for attempt in typed:
        with pytest.raises(ConfigError, match=f"'{key}' was removed: ") as caught:
            attempt()
        assert caught.value.code == "SPDE-C005" and "unknown key" not in caught.value.message


def test_what_else_is_wrong_is_said_beside_removed_keys():
    with pytest.raises(ConfigError, match=r"'train.clip' was removed.*train.lr.*unknown key 'train.epoch'"):
        Config.parse({"train": {"clip": 2.0, "epoch": 1, "lr": -1.0}})


@pytest.mark.parametrize(("name", "variant"), HASHES)
def test_hashes_are_those_of_before_and_saved_trees_of_before_mean_the_same(name, variant):
    config = Config.preset(name, variant, "former" if variant == "default" else "default")
    assert config.hash() == HASHES[name, variant]
    before = config.identity()  # a tree with all the keys that there were
    assert set(REMOVED) <= {f"{section}.{key}" for section in before if section != "variant" for key in before[section]}
    assert Config.from_saved(before) == config
    assert Config.from_saved(config.tree()) == config


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("key", REMOVED)
def test_a_saved_key_at_another_value_is_refused_by_name_if_it_decided_anything(key, variant):
    saved = copy.deepcopy(Config.preset("tiny", variant).identity())
    section, _, name = key.partition(".")
    before = saved[section][name]
    saved[section][name] = changed(before)
    if not REMOVED[key].decides:
        assert Config.from_saved(saved) == Config.preset("tiny", variant)
    elif name in ("solar", "slope", "head_sees_field", "head_sees_surroundings"):
        # Both values exist today, as an element of model.inputs.
        assert Config.from_saved(saved).identity() == saved
    else:
        with pytest.raises(ConfigError, match=f"'{section}.") as caught:
            Config.from_saved(saved)
        assert caught.value.code == "SPDE-C006"


def test_a_combination_that_no_key_can_say_is_refused():
    saved = Config.preset("tiny").identity()
    saved["model"]["closure_every"] = "substep"
    with pytest.raises(ConfigError, match=r"'model.closure_wind' was removed and is fixed at False, the run has True"):
        Config.from_saved(saved)


@pytest.mark.parametrize("key", ADDED)
def test_an_added_key_enters_the_hash_once_it_changes_something(key):
    section, _, name = key.partition(".")
    tree = Config().tree()
    tree[section][name] = ADDED[key]
    assert name not in identity_tree(tree)[section]
    tree[section][name] = "another"
    assert identity_tree(tree)[section][name] == "another"


def test_a_run_of_before_a_key_was_added_has_its_value_of_then():
    saved = Config.preset("tiny", recipe="former").tree()
    for key in ADDED:
        section, _, name = key.partition(".")
        del saved[section][name]
    assert Config.from_saved(saved) == Config.preset("tiny", recipe="former") != Config.preset("tiny")


def test_every_other_key_enters_the_hash():
    tree = Config().tree()
    default_identity = identity_tree(tree)
    for section, part in tree.items():
        for name in part if isinstance(part, dict) else ():
            other = copy.deepcopy(tree)
            other[section][name] = [] if name == "inputs" else "printed" if name == "closure_form" else "another"
            assert identity_tree(other) != default_identity, f"{section}.{name}"


@pytest.mark.parametrize("rule", ["range", "weathergft", "limiter"])
def test_a_saved_share_of_a_rule_is_accepted_where_it_is_the_rules_own(rule):
    from pde_ops.integrators.scaling import DEFAULT_RHO

    tree = Config.preset("tiny").with_overrides([f"pde.rule={rule}"]).tree()
    tree["pde"]["rho"] = DEFAULT_RHO[rule]
    assert Config.from_saved(tree).pde.rule == rule
    tree["pde"]["rho"] = 0.5
    with pytest.raises(ConfigError, match=r"pde\.rho"):
        Config.from_saved(tree)
