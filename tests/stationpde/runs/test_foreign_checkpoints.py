"""Checkpoints of another run, names that lead out of a run, records that contradict each other: all refused."""

import os
import shutil
from pathlib import Path

import pytest

from small_network import small_config, small_series
from stationpde.api import StationPDE
from stationpde.errors import CorruptArtefactError, UsageError
from stationpde.runs import RunDirectory, collect, inspect, load_run, read_sealed, summary, write_sealed
from stationpde.training.session import TrainOptions, train

SETTINGS = ("train.max_steps=2", "train.validate_windows=2", "train.batch=2")


@pytest.fixture
def run(small_runs, tmp_path) -> Path:
    return Path(shutil.copytree(small_runs.first, tmp_path / "run"))


def reseal(path: Path, **changes: object) -> None:
    write_sealed(path, {**read_sealed(path), **changes})


def replace_checkpoint(run: Path, other: Path, name: str = "step-2") -> None:
    shutil.rmtree(run / "checkpoints" / name)
    shutil.copytree(other / "checkpoints" / name, run / "checkpoints" / name)


@pytest.mark.parametrize("which", ["best", "last", "step-2"])
def test_a_checkpoint_of_another_seed_is_not_forecast_from(run, small_runs, which):
    replace_checkpoint(run, small_runs.second)
    with pytest.raises(CorruptArtefactError, match="step-2 is of another run") as refused:
        load_run(run, which)
    assert refused.value.code == "SPDE-T056" and "run verify" in refused.value.do
    with pytest.raises(CorruptArtefactError, match="of another run"):
        StationPDE.load(run, checkpoint=which)


def test_a_checkpoint_of_another_run_is_not_verified_and_nothing_is_removed(run, small_runs):
    replace_checkpoint(run, small_runs.second)
    report = inspect(RunDirectory(run))
    assert not report["ok"] and "another run: configuration" in report["files"]["step-2"]
    assert report["files"]["step-0"] is None
    with pytest.raises(CorruptArtefactError, match="another run"):
        collect(RunDirectory(run))
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"step-0", "step-2"}


def test_training_does_not_go_on_from_a_checkpoint_of_another_run(run, small_runs):
    (run / "result.json").unlink()
    replace_checkpoint(run, small_runs.second)
    with pytest.raises(CorruptArtefactError, match="another run") as refused:
        train(small_config("default", SETTINGS), small_series(), run)
    assert refused.value.code == "SPDE-T056"
    with pytest.raises(CorruptArtefactError, match="another run"):
        train(
            small_config("default", SETTINGS), small_series(), run.with_name("new"), options=TrainOptions(init=run)
        )


@pytest.mark.parametrize("key", ["data_fingerprint", "seed", "config_hash"])
def test_each_of_configuration_data_and_seed_is_compared(run, key):
    manifest = run / "checkpoints" / "step-2" / "manifest.json"
    reseal(manifest, **{key: 7 if key == "seed" else "0" * 64})
    with pytest.raises(CorruptArtefactError, match="step-2 is of another run"):
        load_run(run)


def test_a_run_resumed_with_other_threads_is_still_its_own(run):
    (run / "result.json").unlink()
    shutil.rmtree(run / "checkpoints" / "step-2")
    (run / "best.json").unlink()
    changed = small_config("default", (*SETTINGS, "train.checkpoint_every=7"))
    train(changed, small_series(), run)
    assert load_run(run).checkpoint == "step-2" and inspect(RunDirectory(run))["ok"]
    # Earlier versions wrote the hash of the configuration of the resumption.
    reseal(run / "checkpoints" / "step-2" / "manifest.json", config_hash=changed.hash())
    assert load_run(run).checkpoint == "step-2" and inspect(RunDirectory(run))["ok"]


@pytest.mark.parametrize("name", ["worst", "", "step-", "step-2/", "../checkpoints/step-2", "step-2\n", "{away}"])
def test_a_name_that_is_no_checkpoint_is_refused_with_those_that_are(run, small_runs, name):
    with pytest.raises(UsageError, match="this run has best, last, step-0, step-2") as refused:
        load_run(run, name.format(away=small_runs.second / "checkpoints" / "step-2"))
    assert refused.value.code == "SPDE-T058"


def test_a_step_that_was_not_saved_is_refused_with_those_that_were(run):
    with pytest.raises(CorruptArtefactError, match="no checkpoint step-9; this run has best, last, step-0, step-2"):
        load_run(run, "step-9")


@pytest.mark.parametrize("name", ["../../{other}/checkpoints/step-2", "{second}/checkpoints/step-2", "step-0", ".."])
def test_best_json_cannot_lead_elsewhere(run, small_runs, name):
    shutil.copytree(small_runs.second, run.with_name("other"))
    reseal(run / "best.json", checkpoint=name.format(other="other", second=small_runs.second))
    with pytest.raises(CorruptArtefactError) as refused:
        load_run(run)
    assert refused.value.code == "SPDE-T057"
    assert summary(RunDirectory(run))["state"] == "damaged" and not inspect(RunDirectory(run))["ok"]


def test_best_json_says_what_its_checkpoint_says(run):
    reseal(run / "best.json", score=0.001)
    with pytest.raises(CorruptArtefactError, match="not what step-2 holds"):
        load_run(run)
    assert summary(RunDirectory(run))["state"] == "damaged"
    assert load_run(run, "last").checkpoint == "step-2"


@pytest.mark.parametrize("linked", ["checkpoints", "checkpoints/step-2", "checkpoints/step-2/model.safetensors"])
def test_links_out_of_a_run_are_not_followed(run, small_runs, linked):
    link, away = run / linked, run.with_name("away")
    link.rename(away)
    link.symlink_to(away)
    with pytest.raises(CorruptArtefactError, match="leads out of the run") as refused:
        load_run(run)
    assert refused.value.code == "SPDE-T056"
    assert not inspect(RunDirectory(run))["ok"]


def test_a_link_to_a_run_and_links_inside_it_are_followed(run):
    os.symlink(run, run.with_name("link"))
    (run / "checkpoints").rename(run / "saved")
    (run / "checkpoints").symlink_to("saved")
    assert load_run(run.with_name("link")).checkpoint == "step-2"


def test_a_record_whose_configuration_was_changed_is_refused(run):
    record = read_sealed(run / "run.json")
    record["config"]["data"]["max_missing"] = 0.8
    write_sealed(run / "run.json", record)
    with pytest.raises(CorruptArtefactError, match="contradicts itself"):
        load_run(run)
    assert not inspect(RunDirectory(run))["ok"] and summary(RunDirectory(run))["state"] == "damaged"


def test_a_run_that_was_moved_names_its_files_where_they_are(run):
    result = train(small_config("default", SETTINGS), small_series(), run)
    assert (result.run, result.best) == (run, run / "checkpoints" / "step-2") and result.best.is_dir()


