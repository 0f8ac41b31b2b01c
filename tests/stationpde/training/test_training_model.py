"""The real model through the real loop, as small as it gets: resumption, weights for new stations, a stated need."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fields.windows.series import Stations, StationSeries
from stationpde.config.tree import Config
from stationpde.data.datasets import demo_series
from stationpde.data.window_source import WindowSource
from stationpde.model import task as learner_module
from stationpde.model.compiling import COMPILED, compile_networks
from stationpde.runs.checkpoint import load_weights
from stationpde.runs.metrics_log import read_metrics
from stationpde.runs.run_directory import RunDirectory
from stationpde.training.distributed import LocalWorld
from stationpde.training.estimate import dry_run
from stationpde.training.session import TrainOptions, default_build, train
from training_learner import small_series

TINY = ["data.history=4", "data.horizon=2", "data.step=1h", "train.max_steps=4", "train.checkpoint_every=2",
        "train.validate_windows=4", "train.batch=2", "train.average=0.9"]  # fmt: skip


def tiny(*overrides: str) -> Config:
    return Config.preset("tiny").with_overrides([*TINY, *overrides])


class _KilledError(BaseException):
    """Stands for the end of a process, which no part of the loop may catch."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(tiny(), small_series(), tmp_path_factory.mktemp("model") / "run")


def test_the_model_goes_on_exactly_after_it_broke_off_in_mid_epoch(trained, tmp_path):
    def build(config, source):
        learner = default_build(config, source)
        whole = learner.losses
        calls = iter(range(99))

        def losses(batch, reducer):
            if next(calls) == 3:
                raise _KilledError
            return whole(batch, reducer)

        learner.losses = losses
        return learner

    with pytest.raises(_KilledError):
        train(tiny(), small_series(), tmp_path / "run", build=build)
    assert train(tiny(), small_series(), tmp_path / "run").weights_sha256 == trained.weights_sha256


def test_progress_tells_loss_gradient_rate_and_courant_number(tmp_path):
    events = []
    train(tiny("train.max_steps=1"), small_series(), tmp_path / "run", watcher=events.append)
    step = next(event for event in events if event.stage == "train")
    assert {"total", "grad_norm", "lr", "courant"} <= set(step.values)
    assert all(word in step.note for word in ("epoch 1", "loss", "grad", "lr", "Courant"))
    assert events[0].stage == "guide" and events[0].total > 0
    assert events[-1].stage == "validation" and "hPa²" in events[-1].note


def test_first_weights_find_their_stations_by_name_and_new_ones_begin_at_zero(trained, tmp_path):
    old = small_series()
    order = [4, 0, 2]  # three of the five, in another order, and a new one
    names = (*(old.stations.id[i] for i in order), "new")
    where = [
        np.append(getattr(old.stations, axis)[order], value)
        for axis, value in (("lat", 48.5), ("lon", 2.5), ("alt", 10.0))
    ]
    values = np.concatenate([old.values[:, order], old.values[:, :1]], axis=1)
    series = StationSeries(old.time, values, Stations(names, *where), old.step_seconds)
    options = TrainOptions(init=trained.run)
    result = train(
        tiny("train.lr=1e-12", "train.max_steps=1", "train.average=0"), series, tmp_path / "run", options=options
    )
    before, after = load_weights(RunDirectory(trained.run).checkpoint("best")), load_weights(result.checkpoint)
    assert torch.allclose(after["embedding"][:3], before["embedding"][order], atol=1e-9)
    assert before["embedding"].abs().max() > 1e-6 > after["embedding"][3].abs().max()


def test_a_dry_run_tells_shapes_numbers_and_time_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = dry_run(tiny(), small_series())
    assert found.batch == {"history": [2, 4, 5, 5], "future": [2, 2, 5, 5]}
    assert found.steps == 4 and found.parameters > 1000 and found.seconds_per_epoch > 0
    assert 0 < found.seconds_of_first_guess < found.seconds
    assert found.courant > 0 and found.model["diffusion_number"] == 0.01
    text = "\n".join(found.lines())
    assert all(word in text for word in ("parameters", "GB (measured)", "Courant", "diffusion number", "s an epoch"))
    assert list(tmp_path.iterdir()) == []
    longer = "\n".join(replace(found, seconds_per_epoch=2240.0, seconds=22400.0).lines())
    assert "37.3 min an epoch of" in longer and "at most 6.2 h in all" in longer


NEED = """
import json, sys, torch
sys.path.insert(0, {here!r})
torch.set_num_threads(1)
from stationpde.config.tree import Config
from stationpde.data.datasets import demo_series
from stationpde.training import estimate as module
config = Config.preset("tiny").with_overrides(
    ["data.history=16", "data.horizon=8", "grid.height=32", "train.batch=12", "train.max_steps=4",
     "train.validate_windows=12", "model.hidden=16", "model.encoder_hidden=16"])
series = demo_series(10800, stations=24, days=40)
if sys.argv[1] == "train":
    from stationpde.training.session import train
    train(config, series, sys.argv[2])
    print(json.dumps(module.peak_memory()))
else:
    module._SAFE_SHARE = float(sys.argv[1])
    found = module.dry_run(config, series)
    print(json.dumps([found.memory_bytes, found.memory_measured]))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_stated_memory_is_within_a_fifth_of_the_real_peak(tmp_path):
    def ask(*words):
        script = NEED.format(here=str(Path(__file__).parents[2] / "support"))
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    real = ask("train", str(tmp_path / "run"))
    measured, extrapolated = ask("0.7"), ask("0.0")
    assert measured[1] is True and extrapolated[1] is False
    assert measured[0] == pytest.approx(real, rel=0.2)
    assert extrapolated[0] == pytest.approx(real, rel=0.2)


def test_windows_of_a_configuration_are_those_of_the_split():
    source = WindowSource.of(small_series(), tiny())
    assert source.windows.split.val == 120 and len(source.part("val", 4)) == 4


# ---- torch.compile ---------------------------------------------------------------------------------------------


def _gradient(config: Config) -> torch.Tensor:
    torch.manual_seed(0)
    source = WindowSource.of(small_series(), config)
    learner = default_build(config, source)
    learner.module.train()
    learner.losses(source.batch(source.epoch(0)[:2]), LocalWorld().reducer).total.backward()
    return torch.cat([p.grad.flatten() for p in learner.module.parameters() if p.grad is not None])


def test_compiling_is_asked_for_and_leaves_names_and_gradients_as_they_are(monkeypatch):
    asked = tiny("train.compile=true", "train.station_dropout=0", "pde.backend=torch")
    # Traced and differentiated as by inductor, without its code generation.
    monkeypatch.setattr(learner_module, "compile_networks", lambda model: compile_networks(model, "aot_eager"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = _gradient(asked)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= len(COMPILED)
    plain = _gradient(asked.with_overrides(["train.compile=false"]))
    torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-6)  # float32, sums in another order
    source = WindowSource.of(small_series(), asked)
    named = [list(default_build(config, source).module.state_dict()) for config in (asked, tiny())]
    assert named[0] == named[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_compiled_run_trains_and_its_checkpoint_is_one_like_any_other(tmp_path):
    torch._dynamo.reset()
    made = train(tiny("train.compile=true"), small_series(), tmp_path / "run")
    plain = train(tiny(), small_series(), tmp_path / "plain")
    ours, theirs = load_weights(made.checkpoint), load_weights(plain.checkpoint)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if value.is_floating_point():
            torch.testing.assert_close(ours[name], value, rtol=1e-3, atol=1e-4)


# ---- the demonstration network ---------------------------------------------------------------------------------


def test_the_loss_falls_on_the_demonstration_network_and_persistence_is_beaten(tmp_path):
    small = ["train.threads=1", "grid.height=8", "model.hidden=8", "model.encoder_hidden=8", "model.head_hidden=32",
             "model.dilations=[1,2]", "data.horizon=4", "train.batch=4", "train.max_steps=30", "train.epochs=1",
             "train.validate_windows=24", "train.lr=4e-3"]  # fmt: skip
    made = train(Config.preset("demo").with_overrides(small), demo_series(stations=32, days=60), tmp_path / "run")
    losses = [record["total"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl", "step")]
    assert np.mean(losses[-8:]) < 0.8 * np.mean(losses[:8])
    assert min(score["skill"] for score in made.validation.values()) > 0.0
