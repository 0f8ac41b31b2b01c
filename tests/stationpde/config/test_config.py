"""The configuration: presets and variants, overrides, ablations by name, and errors that say what to type."""

import json
import os
from typing import get_args

import pytest
from pydantic import ValidationError

from fields.lift import LIFT_METHODS
from stationpde.config.layers import leaves
from stationpde.config.sections import LiftSection, PDESection
from stationpde.config.tree import ABLATIONS, PRESETS, VARIANTS, Config
from stationpde.errors import ConfigError


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_its_file_in_both_variants(name, variant, tmp_path):
    config = Config.preset(name, variant=variant)
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml(), encoding="utf-8")
    assert Config.read(path) == config
    assert Config.read(path).hash() == config.hash()


@pytest.mark.parametrize(
    ("name", "step", "history", "horizon", "substeps"),
    [("weather2k", 10800, 16, 8, 6), ("meteonet", 3600, 48, 24, 2)],
)
def test_presets_have_the_papers_windows_and_sub_steps(name, step, history, horizon, substeps):
    config = Config.preset(name)
    assert (config.data.step_seconds, config.data.history, config.data.horizon) == (step, history, horizon)
    assert (config.substeps, config.pde.dt) == (substeps, 1800.0)


def test_meteonet_does_not_score_its_stand_in_for_pressure():
    data = Config.preset("meteonet").data
    assert data.missing == {"p": "standard-atmosphere"}
    assert "p" not in data.scored


def test_the_paper_variant_is_the_table_of_open_points():
    config = Config.preset("weather2k", variant="paper")
    model, lift, pde, loss = config.model, config.lift, config.pde, config.loss
    assert (lift.method, lift.k, lift.w_alt) == ("terrain_idw", 10, "5 km/m")
    assert (config.grid.height, config.grid.width, config.grid.dem) == (32, "metres", None)
    assert (model.state, model.inputs, model.closure_form) == ("raw", (), "printed")
    assert (model.encoder, model.encoder_hidden, model.hidden, model.head_hidden) == ("plain", 64, 32, 128)
    assert (pde.rule, pde.advection) == ("range", "advection_upwind1")
    assert (loss.kind, loss.observed) == ("l1", 0.2)


def test_the_field_variant_is_the_default_without_its_guide_and_with_every_term():
    field, default = Config.preset(variant="field"), Config.preset()
    assert not field.is_guided
    terms = set(get_args(get_args(PDESection.model_fields["terms"].annotation)[0]))
    assert set(field.extended_terms) == terms - {"upper_air", "upper_air_placebo"}
    alone = ["model.guide=none", "model.simple_members=false", f"train.epochs={field.train.epochs}"]
    same = default.with_overrides(alone)
    assert [line.partition(":")[0] for line in field.diff(same)] == ["variant", "pde.terms"]


def test_the_papers_optimiser_is_a_recipe_of_its_own():
    train = Config.preset("weather2k", recipe="paper").train
    assert (train.lr, train.batch, train.epochs) == (1e-4, 32, 10)
    assert train.schedule == "constant"


def test_the_former_recipe_differs_in_shares_guide_and_length_of_training():
    plain, former = Config.preset("weather2k"), Config.preset("weather2k", recipe="former")
    changed = {line.partition(":")[0] for line in plain.diff(former)}
    members, guide = {"model.simple_members", "model.shares"}, {"model.guide_rows", "model.guide_season"}
    assert changed == members | guide | {"model.guide_local", "train.epochs"}
    assert former.hash() != plain.hash()


def test_the_default_variant_is_the_table_of_open_points():
    config = Config.preset("weather2k")
    model, pde = config.model, config.pde
    assert (model.state, model.encoder, model.closure_form) == ("anomaly", "dilated", "held")
    assert model.inputs == ("sun", "slope", "encoder", "surroundings", "station", "departure")
    assert (pde.rule, pde.max_wind) == ("none", 40.0)
    assert (config.train.schedule, config.train.lr) == ("one_cycle", 2e-3)


@pytest.mark.parametrize(("name", "cell_km"), [("weather2k", 124.8), ("meteonet", 18.8)])
def test_the_dilated_encoder_reaches_500_km(name, cell_km):
    dilations = Config.preset(name).model.dilations
    # One cell more for the last layer.
    assert (sum(dilations) + 1) * cell_km >= 500.0


PLAIN = {key: type(value) for key, value in leaves(Config().tree()) if isinstance(value, bool | int | float)}
ODD = {bool: ["1", "'yes'", "1.0"], int: ["true", "'3'", "3.0"], float: ["true", "'3'"]}


@pytest.mark.parametrize("key", PLAIN)
def test_true_is_no_number_text_no_number_and_a_number_no_switch(key):
    for text in ODD[PLAIN[key]]:
        with pytest.raises(ConfigError, match=f"{key}: Input should be a valid"):
            Config().with_overrides([f"{key}={text}"])


def test_a_key_of_several_forms_names_them_in_one_sentence():
    sentence = r"^train\.epochs: Input should be a valid integer, or input should be 'auto', not 'many';"
    with pytest.raises(ConfigError, match=sentence):
        Config().with_overrides(["train.epochs=many"])


@pytest.mark.parametrize("pair", ["data.split=[true,true,true]", "model.dilations=[true]", "grid.width=true",
                                  "train.max_steps=true", "train.validate_windows=2.0"])  # fmt: skip
def test_true_is_no_number_in_lists_and_where_nothing_is_the_default(pair):
    with pytest.raises(ConfigError):
        Config().with_overrides([pair])
    assert Config().with_overrides(["train.lr=1", "data.max_missing=0"]).train.lr == 1.0


def test_overrides_are_toml_values_and_bare_words():
    config = Config.preset("tiny").with_overrides(
        ["train.epochs=3", "pde.rule=limiter", "data.scored=['t']", "train.max_steps=none", "model.closure=false"]
    )
    assert (config.train.epochs, config.pde.rule, config.data.scored) == (3, "limiter", ("t",))
    assert config.train.max_steps is None
    assert config.with_overrides(["pde.rule=none"]).pde.rule == "none"  # a choice of that name, not nothing
    assert config.model.closure is False


def test_an_unknown_key_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown key 'train.epoch'; did you mean 'train.epochs'") as caught:
        Config.preset("tiny").with_overrides(["train.epoch=3"])
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.epochs=0", "train.epochs"),
        ("pde.dt=7000", "does not divide data.step"),
        ("data.step=7h", "does not divide a day"),
        ("data.step=soon", "not a span of time"),
        ("data.split=[0.5, 0.1, 0.1]", "add up to 1"),
        ("data.missing={p = 'standard-atmosphere'}", "cannot be scored"),
        ("pde.rule=fast", "pde.rule"),
        ("nonsense", "not of the form key=value"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(override, words):
    with pytest.raises(ConfigError, match=words):
        Config.preset("tiny").with_overrides([override])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model.pde_branch=false", "model.data_branch=false", "model.guide=none"], "one of pde_branch and data"),
        (["model.state=raw", "pde.pressure_gradient=true"], "needs model.state"),
        (["model.state=raw", 'pde.terms=["upper_air"]'], "upper_air in pde.terms needs model.state"),
        (['pde.terms=["upper_air"]', "pde.advection=semi_lagrangian"], "has its own"),
        (["pde.rule=range", "pde.advection=semi_lagrangian"], "scales Euler increments"),
        (["pde.advection=advection_central2"], "grows under plain Euler"),
    ],
)
def test_switches_that_contradict_each_other_are_refused(overrides, words):
    with pytest.raises(ConfigError, match=words):
        Config.preset("tiny").with_overrides(overrides)


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(ConfigError) as caught:
        Config.parse({"train": {"epochs": 0, "lr": -1}, "grid": {"heigth": 3}})
    text = str(caught.value)
    assert all(word in text for word in ("train.epochs", "train.lr", "did you mean 'grid.height'"))


def test_a_difference_is_listed_key_by_key():
    config = Config.preset("tiny")
    other = config.with_overrides(["train.lr=0.5", "data.scored=['t']", "data.missing={p = 'standard-atmosphere'}"])
    assert config.diff(other) == [
        "data.scored: ['u', 'v', 'p', 't', 'rh'] -> ['t']", "data.missing: {} -> None", "train.lr: 0.002 -> 0.5",
        "data.missing.p: None -> 'standard-atmosphere'",
    ]  # fmt: skip
    assert config.hash() != other.hash()
    assert config.diff(config) == []


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_by_name_changes_its_switch_and_nothing_else(name):
    config = Config.preset("tiny")
    changed = config.diff(config.ablated(name))
    # Without the guide the field learns for longer.
    assert len([change for change in changed if name != "no_guide" or not change.startswith("train.epochs")]) == 1


def test_ablations_add_up_and_an_operator_is_one_too():
    without = Config.preset("tiny").ablated("no_diffusion", "coriolis", "no_diffusion").pde.without
    assert without == ("coriolis", "laplacian")


def test_a_file_lays_over_a_base_and_a_paper_file_over_the_paper_variant(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[train]\nepochs = 7\n")
    base = Config.preset("tiny", variant="paper")
    assert Config.read(path, base) == base.with_overrides(["train.epochs=7"])
    path.write_text('variant = "paper"\n')
    assert Config.read(path).pde.rule == "range"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[train\n", "not valid TOML"),
        (b"a = 1\nb = '\xff'\n", "line 2 is not UTF-8"),
        (b"#" * (1 << 20) + b"##", "1 MiB"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_name(content, words, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        Config.read(path)
    with pytest.raises(ConfigError, match=r"no file other\.toml"):
        Config.read(tmp_path / "other.toml")


@pytest.mark.parametrize("names", [{"name": "weather2"}, {"name": "tiny", "variant": "papr"}])
def test_an_unknown_preset_or_variant_suggests_the_nearest(names):
    with pytest.raises(ConfigError, match=r"did you mean '(weather2k|paper)'"):
        Config.preset(**names)


def test_inputs_are_listed_in_one_order_whatever_was_typed():
    config = Config.preset("tiny").with_overrides(['model.inputs=["departure", "sun", "sun"]'])
    assert config.model.inputs == ("sun", "departure")


def test_there_are_at_most_70_keys_and_each_says_what_it_decides():
    assert len(list(leaves(Config().tree()))) <= 70
    sections = {name: type(value) for name, value in Config() if name != "variant"}
    silent = [f"{name}.{key}" for name, section in sections.items()
              for key, field in section.model_fields.items() if not field.description]  # fmt: skip
    assert silent == []


def test_a_configuration_cannot_be_changed_in_place_and_has_a_schema():
    config = Config.preset("tiny")
    with pytest.raises(ValidationError, match="frozen"):
        config.train.lr = 1.0
    schema = Config.model_json_schema()
    assert "λ_obs" in json.dumps(schema, ensure_ascii=False)


def test_a_configuration_can_name_every_lift_method_and_no_other():
    assert set(get_args(LiftSection.model_fields["method"].annotation)) == set(LIFT_METHODS)


ABSURD = [
    "grid.height=1000000000", "grid.width=1000000000", "data.history=100000000", "data.horizon=100000000",
    "model.hidden=1000000000", "model.encoder_hidden=1000000000", "model.head_hidden=1000000000",
    "model.guide_hidden=1000000000", "model.guide_networks=1000000000", "model.dilations=[1000000000]",
    "train.batch=1000000000", "train.threads=1000000000", "train.seed=1000000000000000000000", "lift.k=1000000000",
    "train.epochs=1000000000000000000000", "pde.dt=1e-9",
]  # fmt: skip


@pytest.mark.parametrize("pair", ABSURD)
def test_an_absurd_size_is_refused_before_anything_is_allocated(pair):
    with pytest.raises(ConfigError, match=pair.split("=")[0].replace(".", r"\.")):
        Config.preset("tiny").with_overrides([pair])


def test_sizes_that_are_absurd_only_together_are_refused():
    pairs = ["grid.height=4096", "grid.width=8192", "train.batch=4096", "model.encoder_hidden=1024"]
    with pytest.raises(ConfigError, match="smaller"):
        Config.preset("tiny").with_overrides(pairs)


def test_a_pipe_is_no_configuration_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(ConfigError, match="no regular file"):
        Config.read(tmp_path / "config.toml")


@pytest.mark.parametrize(
    "pair",
    [
        "train.average=1",  # the average would stay at the first weights for ever
        "train.station_dropout=1",  # a window without stations
        "data.scored=[]",
        'data.scored=["t", "t"]',
    ],
)
def test_a_value_with_which_nothing_is_learned_is_refused(pair):
    with pytest.raises(ConfigError, match=pair.split("=")[0].split(".")[1]):
        Config.preset("tiny").with_overrides([pair])
