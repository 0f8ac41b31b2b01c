"""How networks are computed: chosen by steps to come, said by the run, kept by a resumption."""

from __future__ import annotations

import logging

import pytest

from stationpde.config.tree import Config
from stationpde.errors import ConfigError, Interrupted
from stationpde.model import compiling
from stationpde.model.compiling import STEPS_THAT_PAY, Mode, choose_mode
from stationpde.runs import RunDirectory
from stationpde.training import facts, session
from stationpde.training.session import TrainOptions, train
from training_learner import build_linear, small_config, small_series


@pytest.mark.parametrize(
    ("setting", "steps", "device", "name"),
    [
        ("auto", 10**9, "cpu", "kernels"),
        ("auto", STEPS_THAT_PAY - 1, "cuda", "torch"),
        ("auto", STEPS_THAT_PAY, "cuda", "torch.compile"),
        (True, 1, "cpu", "torch.compile"),
        (False, 10**9, "cuda", "torch"),
    ],
)
def test_networks_are_compiled_where_the_steps_to_come_pay_for_it(setting, steps, device, name, monkeypatch):
    monkeypatch.setattr(compiling, "is_compiled_here", lambda fields: fields.device.type == "cpu")
    mode = choose_mode(setting, steps, device)
    assert mode.name == name and mode.reason


def test_without_a_compiler_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(compiling, "is_compiled_here", lambda fields: False)
    assert choose_mode("auto", 10**9, "cpu").name == "torch"


def test_a_resumed_run_keeps_its_mode_whatever_the_steps_that_are_left():
    assert choose_mode("auto", 1, "cuda", before="torch.compile").name == "torch.compile"
    assert choose_mode("auto", 10**9, "cuda", before="torch").name == "torch"
    assert choose_mode(False, 1, "cuda", before="torch.compile").name == "torch"


def test_the_choice_is_no_part_of_what_a_run_is_recognised_by():
    config = Config.preset("weather2k")
    assert config.train.compile == "auto"
    assert config.hash() == config.with_overrides(["train.compile=false"]).hash()
    assert config.hash() != config.with_overrides(["train.compile=true"]).hash()


@pytest.fixture
def begun(tmp_path):
    """A run of a few steps that is not finished."""
    stop = TrainOptions(max_seconds=1e-9)
    with pytest.raises(Interrupted):
        train(small_config(), small_series(), tmp_path / "run", build=build_linear, options=stop)
    return tmp_path / "run"


def test_a_run_says_how_its_networks_are_computed(begun, caplog):
    with caplog.at_level(logging.INFO, logger="stationpde"):
        trained = train(small_config(), small_series(), begun, build=build_linear)
    mode = choose_mode("auto", 1, "cpu")
    assert f"networks by {mode.name}: {mode.reason}" in caplog.text
    assert RunDirectory(begun).record()["networks"] == mode.name
    assert RunDirectory(begun).verify(trained.checkpoint)["networks"] == mode.name


def test_another_choice_than_that_of_a_begun_run_is_refused(begun):
    with pytest.raises(ConfigError, match=r"train\.compile: 'auto' -> True"):
        train(small_config("train.compile=true"), small_series(), begun, build=build_linear)


def test_a_compiled_run_stays_compiled_when_auto_would_choose_otherwise(tmp_path, monkeypatch):
    compiled = Mode("torch.compile", "many steps")
    stop = TrainOptions(max_seconds=1e-9)
    with monkeypatch.context() as patched:
        patched.setattr(session, "choose_mode", lambda *_, **__: compiled)
        with pytest.raises(Interrupted):
            train(small_config(), small_series(), tmp_path / "run", build=build_linear, options=stop)
    strict = TrainOptions(strict=True)
    trained = train(small_config(), small_series(), tmp_path / "run", build=build_linear, options=strict)
    assert RunDirectory(tmp_path / "run").verify(trained.checkpoint)["networks"] == "torch.compile"


def test_other_networks_than_before_are_named_and_refused_where_bits_count():
    here = facts.facts(config_hash="c", data_fingerprint="d", trained=(0, 1), seed=0, world=1, device="cpu",
                       networks="kernels")
    there = {**here, "networks": "torch.compile"}
    assert facts.differences(there, here) == ["networks: torch.compile -> kernels"]
    former = {name: value for name, value in here.items() if name != "networks"}
    assert facts.differences(former, here) == []  # a checkpoint of a version that did not note it
