"""Where a report's numbers come from: versions, commit, configuration, data, weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import stationpde
from stationpde.evaluation import commit

if TYPE_CHECKING:
    from stationpde.report.view import RunView

__all__ = ["provenance"]


def provenance(view: RunView) -> dict[str, str]:
    """Collect facts by name, in the order in which they are shown."""
    run, record = view.run, view.run.record
    versions = record.get("versions") or {}
    facts = {
        "run": str(run.path),
        "checkpoint": run.checkpoint,
        "variant": f"{run.model.config.variant}, seed {record.get('seed')}",
        "configuration": str(record.get("config_hash", ""))[:16],
        "trained on data": str(record.get("data_fingerprint", ""))[:16],
        "trained with": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "trained on": f"{record.get('device')}, {record.get('threads')} threads, {record.get('world')} ranks",
    }
    if view.data is not None:
        facts["looked at with"] = f"{view.data.path} ({view.data.series.fingerprint[:16]})"
    facts["report by"] = f"stationpde {stationpde.__version__}"
    if source := commit():
        facts["commit"] = source
    return facts
