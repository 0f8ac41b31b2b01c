"""Summarise and check a run from its files alone, and remove files that it no longer needs."""

from __future__ import annotations

from typing import Any

from stationpde.errors import CorruptArtefactError
from stationpde.runs import checkpoint_files
from stationpde.runs.lock import RunLock
from stationpde.runs.metrics_log import read_metrics
from stationpde.runs.run_directory import RunDirectory
from stationpde.runs.sealed import read_sealed

__all__ = ["collect", "inspect", "summary"]


def summary(run: RunDirectory) -> dict[str, Any]:
    """Summarise a run in one record; ``state`` is done, stopped, begun or damaged."""
    about: dict[str, Any] = {"run": str(run.path), "state": "damaged", "steps": None, "score": None}
    about |= {"variant": None, "seed": None}
    try:
        record, best, result = run.record(), run.best(), run.result()
    except CorruptArtefactError:
        return about
    saved = checkpoint_files.listed(run.checkpoints)
    state = "done" if result else ("stopped" if saved else "begun")
    return {
        **about,
        "state": state,
        "steps": checkpoint_files.step_of(saved[-1]) if saved else 0,
        "score": None if best is None else best["score"],
        "variant": record["config"].get("variant"),
        "seed": record.get("seed"),
    }


def inspect(run: RunDirectory) -> dict[str, Any]:
    """Check every record and checkpoint; ``files`` maps each to its problem, or None."""
    problems: dict[str, str | None] = {}
    for path in (run.record_path, run.best_path, run.result_path):
        if path.exists() or path == run.record_path:
            problems[path.name] = _problem(read_sealed, path)
    for path in checkpoint_files.listed(run.checkpoints):
        problems[path.name] = _problem(checkpoint_files.verify, path)
    steps = [record["step"] for record in read_metrics(run.metrics, "step")]
    gaps = sorted(set(range(1, max(steps, default=0) + 1)) - set(steps))
    problems["metrics.jsonl"] = f"steps are missing, the first is {gaps[0]}" if gaps else None
    return {"ok": not any(problems.values()), "files": problems}


def _problem(check: Any, path: Any) -> str | None:
    try:
        check(path)
    except CorruptArtefactError as problem:
        return problem.message
    return None


def collect(run: RunDirectory) -> list[str]:
    """Remove unfinished files and checkpoints that are neither the last two nor the best; return their names."""
    with RunLock(run.path):
        before = {path.name for path in run.checkpoints.iterdir()} if run.checkpoints.is_dir() else set()
        checkpoint_files.clear_scratch(run.checkpoints)
        best = run.best()
        checkpoint_files.prune(run.checkpoints, keep=[best["checkpoint"]] if best else [])
        after = {path.name for path in run.checkpoints.iterdir()} if run.checkpoints.is_dir() else set()
        return sorted(before - after)
