"""A run that is killed, stopped or started again ends bit for bit as one that was left alone."""

import json
import random
import shutil
import signal
from pathlib import Path

import pytest
import torch

from stationpde.errors import ConfigError, CorruptArtefactError, LockedError, UsageError
from stationpde.runs import checkpoint_files
from stationpde.runs.checkpoint import load_weights
from stationpde.runs.metrics_log import MetricsLog, read_metrics
from stationpde.runs.run_directory import RunDirectory
from stationpde.training.session import TrainOptions, train
from training_learner import build_linear, small_config, small_series
from training_processes import wait_until


def records(run: Path) -> list[dict]:
    """The log without what depends on the clock."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run that nobody touched: its result and its log."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    result = train(small_config(), small_series(), run, build=build_linear)
    return result, records(run)


def test_the_same_seed_gives_the_same_log_and_weights_and_another_seed_does_not(undisturbed, tmp_path):
    again = train(small_config(), small_series(), tmp_path / "a", build=build_linear)
    other = train(small_config("train.seed=1"), small_series(), tmp_path / "b", build=build_linear)
    assert (again.weights_sha256, records(tmp_path / "a")) == (undisturbed[0].weights_sha256, undisturbed[1])
    assert other.weights_sha256 != again.weights_sha256


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits to be asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def kills(processes, run: Path, count: int, seed: int, overrides: tuple[str, ...] = ()) -> tuple[dict, int]:
    """Kill ``count`` times at random moments, then let the run end; its result and how often it was met alive."""
    rng, met = random.Random(seed), 0
    for _ in range(count):
        training = processes.start(run, sleep=0.004, overrides=overrides)
        before = checkpoint_files.listed(run / "checkpoints")
        started = before[-1] if before else None
        moment = rng.random()

        def is_time(started=started, moment=moment, training=training) -> bool:
            newest = checkpoint_files.listed(run / "checkpoints")
            wanted = newest and newest[-1] != started
            return bool(wanted) or has_ended(training.pid)

        # At the start, in mid-step, or right when a checkpoint appears.
        if moment < 0.7:
            wait_until(is_time)
        spin = rng.randrange(20_000)
        for _ in range(spin):
            pass
        training.signal(signal.SIGKILL)
        met += training.wait() == -signal.SIGKILL
        (run / "result.json").unlink(missing_ok=True)
    code, training = processes.finish(run, overrides=overrides)
    assert code == 0, training.err
    return training.result, met


def ends_as_undisturbed(undisturbed, processes, run: Path, count: int, overrides: tuple[str, ...] = ()) -> None:
    result, met = kills(processes, run, count, seed=count, overrides=overrides)
    assert met >= count * 0.8
    assert result["weights_sha256"] == undisturbed[0].weights_sha256
    assert records(run) == undisturbed[1]  # none lost, none twice
    assert not list((run / "checkpoints").glob("*.tmp-*"))


def test_5_kills_at_random_moments_change_no_bit(undisturbed, processes, tmp_path):
    ends_as_undisturbed(undisturbed, processes, tmp_path / "run", 5)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [20, 100])
def test_many_kills_at_random_moments_change_no_bit(processes, tmp_path, count):
    # Most kills let one checkpoint appear first: a run with four for each is still there to be killed at the end.
    longer = (f"train.epochs={count}", "train.patience=1000")
    alone = train(small_config(*longer), small_series(), tmp_path / "alone", build=build_linear)
    ends_as_undisturbed((alone, records(tmp_path / "alone")), processes, tmp_path / "run", count, longer)


def test_a_resumed_run_repeats_no_more_than_the_steps_since_its_checkpoint(processes, tmp_path):
    run = tmp_path / "run"
    training = processes.start(run, sleep=0.01)
    wait_until(lambda: len(read_metrics(run / "metrics.jsonl", "step")) >= 10)
    training.signal(signal.SIGKILL)
    training.wait()
    logged = read_metrics(run / "metrics.jsonl", "step")[-1]["step"]
    newest = checkpoint_files.step_of(checkpoint_files.newest_valid(run / "checkpoints"))
    assert logged - newest <= 4  # train.checkpoint_every


# ---- what a resumption refuses ---------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path, undisturbed):
    """A copy of a run that was stopped after some steps."""
    run = tmp_path / "run"
    shutil.copytree(undisturbed[0].run, run)
    (run / "result.json").unlink()
    return run


def test_a_finished_run_answers_at_once(undisturbed):
    again = train(small_config(), small_series(), undisturbed[0].run, build=None)
    assert again == undisturbed[0]


def test_another_configuration_is_refused_with_the_difference(begun):
    before = {p: p.read_bytes() for p in begun.rglob("*") if p.is_file()}
    with pytest.raises(ConfigError) as caught:
        train(small_config("train.lr=0.5", "model.hidden=5"), small_series(), begun, build=build_linear)
    assert caught.value.exit_code == 4 and "--fork" in caught.value.do
    assert "train.lr: 0.01 -> 0.5" in caught.value.message and "model.hidden: 4 -> 5" in caught.value.message
    assert {p: p.read_bytes() for p in begun.rglob("*") if p.is_file()} == before


def test_what_does_not_change_the_result_may_change(undisturbed, begun):
    changed = small_config("train.checkpoint_every=7")
    assert train(changed, small_series(), begun, build=build_linear).weights_sha256 == undisturbed[0].weights_sha256


def test_other_data_are_refused(begun):
    with pytest.raises(CorruptArtefactError, match="other data") as caught:
        train(small_config(), small_series(seed=5), begun, build=build_linear)
    assert caught.value.exit_code == 5


def test_a_fork_begins_a_run_beside_with_the_weights_and_leaves_the_old_one(begun):
    before = {p: p.read_bytes() for p in begun.rglob("*") if p.is_file()}
    config = small_config("train.lr=1e-12", "train.average=0", "train.epochs=1")
    result = train(config, small_series(seed=5), begun, build=build_linear, options=TrainOptions(fork=True))
    assert result.run == begun.with_name("run-2")
    assert {p: p.read_bytes() for p in begun.rglob("*") if p.is_file()} == before
    old, new = (load_weights(RunDirectory(run).checkpoint("best")) for run in (begun, result.run))
    # A rate of 1e-12 moves no weight by more than its rounding; statistics of the data are the new run's own.
    assert torch.allclose(old["net.0.weight"], new["net.0.weight"], atol=1e-9)
    assert not torch.equal(old["mean"], new["mean"])


def test_a_fork_with_another_shape_begins_afresh_and_says_so(begun, caplog):
    def wider(config, source):
        learner = build_linear(config, source)
        learner.module.net[0], learner.module.net[3] = torch.nn.Linear(30, 20), torch.nn.Linear(20, 15)
        return learner

    options = TrainOptions(fork=True)
    result = train(small_config("train.epochs=1"), small_series(), begun, build=wider, options=options)
    assert result.run == begun.with_name("run-2") and "begins with new weights" in caplog.text
    with pytest.raises(CorruptArtefactError, match=r"net\.0\.weight"):
        train(small_config(), small_series(), begun.with_name("x"), build=wider, options=TrainOptions(init=begun))


def test_weights_of_another_run_can_be_the_first(undisturbed, tmp_path):
    config = small_config("train.lr=1e-12", "train.average=0", "train.epochs=1")
    cold = train(config, small_series(seed=5), tmp_path / "cold", build=build_linear)
    init = TrainOptions(init=undisturbed[0].run)
    warm = train(config, small_series(seed=5), tmp_path / "warm", build=build_linear, options=init)
    assert warm.score < 0.9 * cold.score


def test_resume_never_refuses_an_existing_run(begun):
    with pytest.raises(UsageError) as caught:
        train(small_config(), small_series(), begun, build=build_linear, options=TrainOptions(resume="never"))
    assert caught.value.exit_code == 2


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match="is no run"):
        train(small_config(), small_series(), tmp_path, build=build_linear)


def test_other_circumstances_warn_and_strict_resumption_refuses_them(begun, processes, caplog):
    torch.set_num_threads(2)
    try:
        strict = TrainOptions(strict=True)
        config = small_config("train.threads=2")
        with pytest.raises(CorruptArtefactError, match="threads: 1 -> 2") as caught:
            train(config, small_series(), begun, build=build_linear, options=strict)
        assert caught.value.exit_code == 5
        train(config, small_series(), begun, build=build_linear)
        assert "threads: 1 -> 2; the result will not be bit-exact" in caplog.text
    finally:
        torch.set_num_threads(1)


def test_a_damaged_newest_checkpoint_costs_steps_and_no_bit(undisturbed, begun, caplog):
    newest = checkpoint_files.listed(begun / "checkpoints")[-1]
    (newest / "optim.safetensors").write_bytes(b"")
    result = train(small_config(), small_series(), begun, build=build_linear)
    assert result.weights_sha256 == undisturbed[0].weights_sha256
    assert records(begun) == undisturbed[1]
    assert newest.name in caplog.text


def test_with_all_checkpoints_damaged_nothing_is_overwritten(begun):
    for path in checkpoint_files.listed(begun / "checkpoints"):
        (path / "state.json").write_bytes(b"{}")
    before = {p: p.read_bytes() for p in (begun / "checkpoints").rglob("*") if p.is_file()}
    with pytest.raises(CorruptArtefactError) as caught:
        train(small_config(), small_series(), begun, build=build_linear)
    assert caught.value.exit_code == 5
    assert {p: p.read_bytes() for p in (begun / "checkpoints").rglob("*") if p.is_file()} == before


def test_a_damaged_record_of_the_run_is_noticed(begun):
    raw = (begun / "run.json").read_bytes()
    (begun / "run.json").write_bytes(raw.replace(b'"seed": 0', b'"seed": 1', 1))
    with pytest.raises(CorruptArtefactError, match=r"run\.json is damaged"):
        train(small_config(), small_series(), begun, build=build_linear)


def test_paths_with_spaces_letters_and_links_work(undisturbed, tmp_path):
    real = tmp_path / "Läufe für März" / ("x" * 200)
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real, target_is_directory=True)
    result = train(small_config("train.epochs=1"), small_series(), tmp_path / "link" / "a run", build=build_linear)
    assert (real / "a run" / "best.json").exists() and result.steps == 14


# ---- one writer ------------------------------------------------------------------------------------------------


def test_a_second_process_on_the_same_run_is_refused_with_the_first_one_s_number(processes, tmp_path):
    run = tmp_path / "run"
    first = processes.start(run, sleep=0.05)
    wait_until(lambda: (run / "metrics.jsonl").exists())
    with pytest.raises(LockedError, match=f"pid {first.pid} on") as caught:
        train(small_config(), small_series(), run, build=build_linear)
    assert caught.value.exit_code == 8
    first.signal(signal.SIGKILL)
    first.wait()


@pytest.mark.parametrize(
    "left",
    [
        {"pid": 4_000_000, "host": "HERE", "boot": "HERE", "started": 1},
        {"pid": 1, "host": "HERE", "boot": "before the power cut", "started": 1},
        {"pid": 1, "host": "HERE", "boot": "HERE", "started": -1},
        {"pid": 77, "host": "another node", "boot": "?", "started": 1},
    ],
    ids=["dead", "another boot", "number used again", "another host"],
)
def test_a_lock_left_behind_is_taken_over_and_told(begun, left, caplog):
    from fields import atomic

    here = atomic.owner()
    owner = {key: here[key] if value == "HERE" else value for key, value in left.items()}
    (begun / "lock.json").write_text(json.dumps(owner))
    train(small_config(), small_series(), begun, build=build_linear)
    assert f"process {left['pid']}" in caplog.text and "taking it over" in caplog.text


# ---- the log ---------------------------------------------------------------------------------------------------


def test_a_torn_line_and_later_steps_are_dropped_when_a_log_is_reopened(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    for step in range(1, 6):
        log.add({"kind": "step", "step": step, "total": float("nan") if step == 2 else 1.0})
    log.close()
    with path.open("ab") as file:
        file.write(b'{"kind": "step", "st')
    MetricsLog(path, step=3).close()
    assert [(r["step"], r["total"]) for r in read_metrics(path)] == [(1, 1.0), (2, None), (3, 1.0)]


def test_the_best_checkpoint_is_the_one_with_the_best_score(undisturbed):
    run = RunDirectory(undisturbed[0].run)
    validations = [r for r in undisturbed[1] if r["kind"] == "validation"]
    best = min(validations, key=lambda r: r["score"])
    assert run.checkpoint("best").name == f"step-{best['step']}" == run.best()["checkpoint"]
    assert run.checkpoint("last").name == f"step-{undisturbed[0].steps}"
    assert len(validations) == 3 and undisturbed[0].validation == best["variables"]


def test_training_ends_early_when_validation_gets_no_better(tmp_path):
    config = small_config("train.epochs=9", "train.patience=1", "train.lr=1e-12", "train.average=0")
    result = train(config, small_series(), tmp_path / "run", build=build_linear)
    assert result.stopped_early and result.epochs < 9
