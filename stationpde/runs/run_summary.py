"""Summarise and check a run from its files alone, and remove files that it no longer needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fields.errors import counted
from stationpde.errors import ConfigError, CorruptArtefactError
from stationpde.runs import checkpoint_files, ownership
from stationpde.runs.lock import RunLock
from stationpde.runs.metrics_log import damaged_lines, read_metrics
from stationpde.runs.run_directory import RunDirectory
from stationpde.runs.sealed import read_plain, read_sealed

__all__ = ["collect", "inspect", "summary"]


def summary(run: RunDirectory) -> dict[str, Any]:
    """Summarise a run in one record; ``state`` is done, stopped, begun or damaged."""
    about: dict[str, Any] = {"run": str(run.path), "state": "damaged", "steps": None, "score": None}
    about |= {"variant": None, "seed": None}
    try:
        record, best, result = run.record(), run.best(), run.result()
        config = run.stored_config()
        if best is not None:
            run.require_best(best)
    except (CorruptArtefactError, ConfigError):
        return about
    saved = checkpoint_files.listed(run.checkpoints)
    state = "done" if result else ("stopped" if saved else "begun")
    return {
        **about,
        "state": state,
        "steps": checkpoint_files.step_of(saved[-1]) if saved else 0,
        "score": None if best is None else best["score"],
        "variant": config.variant,
        "seed": record.get("seed"),
    }


def inspect(run: RunDirectory) -> dict[str, Any]:
    """Check every record and checkpoint; ``files`` maps each to its problem, or None."""
    problems: dict[str, str | None] = {run.record_path.name: _problem(run.stored_config)}
    if run.best_path.exists():
        problems[run.best_path.name] = _problem(lambda: run.require_best(run.best() or {}))
    if run.result_path.exists():
        problems[run.result_path.name] = _problem(run.result)
    if run.calibration_path.exists():
        problems[run.calibration_path.name] = _problem(lambda: _check_calibration(run))
    for path in checkpoint_files.listed(run.checkpoints):
        problems[path.name] = _problem(partial(_check_checkpoint, run, path))
    problems["metrics.jsonl"] = _problem_of_metrics(run)
    return {"ok": not any(problems.values()), "files": problems}


def _check_calibration(run: RunDirectory) -> None:
    """Check a calibration by its seal and by the record of the run; what it holds is checked where it is read."""
    content = read_sealed(run.calibration_path)
    if _problem(run.record) is None:
        ownership.require_own_calibration(content, run.record(), run.calibration_path, f"calibrate {run.path} again")


def _check_checkpoint(run: RunDirectory, path: Path) -> None:
    """Check a checkpoint as a start reads it; without the record of the run, by its own files alone."""
    from stationpde.runs.schemas import SavedState, require_schema

    ownership.require_inside(path, run.path)
    manifest = checkpoint_files.verify(path)
    if _problem(run.record) is None:
        ownership.require_own(manifest, run.record(), path, run.path)
    require_schema(SavedState, read_plain(path / "state.json"), path / "state.json")


def _problem_of_metrics(run: RunDirectory) -> str | None:
    damaged = damaged_lines(run.metrics)
    if damaged:
        return f"{counted(damaged, 'line')} cannot be read"
    steps = sorted({record["step"] for record in read_metrics(run.metrics, "step")})
    missing = next((number for number, step in enumerate(steps, start=1) if step != number), None)
    return None if missing is None else f"steps are missing, the first is {missing}"


def _problem(check: Callable[[], Any]) -> str | None:
    try:
        check()
    except (CorruptArtefactError, ConfigError) as problem:
        return problem.message
    return None


def collect(run: RunDirectory) -> list[str]:
    """Remove unfinished files and checkpoints that are neither the last two nor the best; return their names."""
    with RunLock(run.path):
        _refuse_foreign(run)
        before = {path.name for path in run.checkpoints.iterdir()} if run.checkpoints.is_dir() else set()
        best = run.best()
        checkpoint_files.clear_scratch(run.checkpoints)
        checkpoint_files.prune(run.checkpoints, keep=[best["checkpoint"]] if best else [])
        after = {path.name for path in run.checkpoints.iterdir()} if run.checkpoints.is_dir() else set()
        return sorted(before - after)


def _refuse_foreign(run: RunDirectory) -> None:
    """Refuse to clean a run with checkpoints of another: they would count among the last two."""
    for path in checkpoint_files.listed(run.checkpoints):
        try:
            run.verify(path)
        except CorruptArtefactError as problem:
            if problem.code == ownership.FOREIGN:
                raise
