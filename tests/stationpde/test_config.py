"""The configuration: presets and variants, overrides, ablations by name, and errors that say what to type."""

import json

import pytest
from pydantic import ValidationError

from stationpde.config import ABLATIONS, PRESETS, VARIANTS, Config
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
    assert (lift.method, lift.k, lift.power, lift.epsilon_m, lift.w_alt) == ("terrain_idw", 10, 1.0, 1.0, "5 km/m")
    assert (config.grid.height, config.grid.width, config.grid.dem) == (32, "metres", None)
    assert (model.state, model.pressure, model.saturation) == ("raw", "surface", "ambaum")
    assert (model.normalisation, model.readout) == ("channel", "bilinear")
    assert (model.encoder, model.encoder_hidden, model.hidden, model.head_hidden) == ("plain", 64, 32, 128)
    assert (model.gate_bias, model.router_bias, model.candidate_scale, model.motion_limit) == (-2.0, 0.0, 0.1, 4.0)
    assert not (model.solar or model.slope or model.head_sees_field or model.station_embedding or model.closure_wind)
    assert (pde.rule, pde.gamma, pde.advection, pde.exact_flows) == ("range", "one", "advection_upwind1", False)
    assert (pde.diffusion_number, pde.friction, pde.condensation) == (0.01, 2e-5, 1 / 3600)
    assert (loss.kind, loss.observed, loss.state_weights, loss.observed_weights) == ("l1", 0.2, {}, {})


def test_the_papers_optimiser_is_a_recipe_of_its_own():
    train = Config.preset("weather2k", recipe="paper").train
    assert (train.lr, train.weight_decay, train.clip, train.batch, train.epochs) == (1e-4, 1e-4, 1.0, 32, 10)
    assert train.schedule == "constant"


def test_the_default_variant_is_the_table_of_open_points():
    config = Config.preset("weather2k")
    model, pde = config.model, config.pde
    assert (model.state, model.readout, model.normalisation, model.encoder) == (
        "anomaly", "anchored", "station_wind", "dilated",
    )  # fmt: skip
    assert model.solar and model.slope and model.head_sees_field and model.station_embedding and model.closure_wind
    assert (pde.rule, pde.gamma, pde.max_wind) == ("none", "split", 40.0)
    assert (config.train.schedule, config.train.lr) == ("one_cycle", 2e-3)


@pytest.mark.parametrize(("name", "cell_km"), [("weather2k", 124.8), ("meteonet", 18.8)])
def test_the_dilated_encoder_reaches_500_km(name, cell_km):
    dilations = Config.preset(name).model.dilations
    # One cell more for the last layer.
    assert (sum(dilations) + 1) * cell_km >= 500.0


def test_overrides_are_toml_values_and_bare_words():
    config = Config.preset("tiny").with_overrides(
        ["train.epochs=3", "pde.rule=limiter", "data.scored=['t']", "train.max_steps=none", "model.solar=false"]
    )
    assert (config.train.epochs, config.pde.rule, config.data.scored) == (3, "limiter", ("t",))
    assert config.train.max_steps is None
    assert config.with_overrides(["pde.rule=none"]).pde.rule == "none"  # a choice of that name, not nothing
    assert config.model.solar is False


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
        ("data.step=soon", "no span of time"),
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
        (["model.pde_branch=false", "model.data_branch=false"], "one of pde_branch and data_branch"),
        (["model.state=raw", "pde.pressure_gradient=true"], "needs model.state"),
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
    other = config.with_overrides(["train.lr=0.5", "loss.state_weights={p = 0.5}"])
    assert config.diff(other) == ["loss.state_weights: {} -> None", "train.lr: 0.002 -> 0.5",
                                  "loss.state_weights.p: None -> 0.5"]  # fmt: skip
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


@pytest.mark.parametrize("given", [{"name": "weather2"}, {"name": "tiny", "variant": "papr"}])
def test_an_unknown_preset_or_variant_suggests_the_nearest(given):
    with pytest.raises(ConfigError, match=r"did you mean '(weather2k|paper)'"):
        Config.preset(**given)


def test_a_configuration_cannot_be_changed_in_place_and_has_a_schema():
    config = Config.preset("tiny")
    with pytest.raises(ValidationError, match="frozen"):
        config.train.lr = 1.0
    schema = Config.model_json_schema()
    assert "λ_obs" in json.dumps(schema, ensure_ascii=False)
