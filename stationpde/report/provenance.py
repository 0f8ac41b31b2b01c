"""Where a report's numbers come from: versions, commit, configuration, data, weights."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import stationpde

if TYPE_CHECKING:
    from stationpde.report.view import RunView

__all__ = ["commit_of", "provenance"]


def commit_of(folder: Path | None = None) -> str | None:
    """The commit of the checkout that this package runs from, with ``+`` if files were changed; None elsewhere."""
    root = folder or Path(stationpde.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, encoding="utf-8", timeout=20, check=True
    )
    return done.stdout.strip()


def provenance(view: RunView) -> dict[str, str]:
    """Facts by name, in the order they are shown."""
    run, record = view.run, view.run.record
    versions = record.get("versions") or {}
    found = {
        "run": str(run.path),
        "checkpoint": run.checkpoint,
        "variant": f"{run.model.config.variant}, seed {record.get('seed')}",
        "configuration": str(record.get("config_hash", ""))[:16],
        "trained on data": str(record.get("data_fingerprint", ""))[:16],
        "trained with": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "trained on": f"{record.get('device')}, {record.get('threads')} threads, {record.get('world')} ranks",
    }
    if view.data is not None:
        found["looked at with"] = f"{view.data.path} ({view.data.series.fingerprint[:16]})"
    found["report by"] = f"stationpde {stationpde.__version__}"
    if commit := commit_of():
        found["commit"] = commit
    return found
