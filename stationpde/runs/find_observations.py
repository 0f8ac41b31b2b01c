"""Find the observations that a run was trained on.

Whether observations are the same as those of training is checked elsewhere: in `RunDirectory.require_same` of
`stationpde.runs.run_directory` when a run resumes.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from stationpde.data import load_series
from stationpde.errors import UsageError

if TYPE_CHECKING:
    from stationpde.runs.loading import LoadedRun

__all__ = ["observations_of_run"]


def observations_of_run(run: LoadedRun, command: str = "evaluate") -> str:
    """Return the source of a run's record: the store that training kept beside it, or ``demo``.

    Parameters
    ----------
    run : a run of `stationpde train`.
    command : the subcommand that advice in messages is written for.

    Raises
    ------
    UsageError
        If the run was trained on a store or on files elsewhere: it does not keep a copy of them.
    """
    for folder in (run.path, run.path.parent):
        if (folder / "data.zarr").is_dir():
            return str(folder / "data.zarr")
    if _is_demo(run):
        return "demo"
    raise UsageError(
        "the run does not hold its observations", code="SPDE-B004", where=str(run.path),
        do=f"stationpde {command} {shlex.quote(str(run.path))} --obs STORE   with the store that it was trained on",
    )  # fmt: skip


def _is_demo(run: LoadedRun) -> bool:
    """Return whether a run was trained on the synthetic network; names of its stations spare making it for others."""
    if not run.model.statistics.stations.id[0].startswith("SY"):
        return False
    series = load_series("demo", run.model.config.data)
    return series.fingerprint == run.record.get("data_fingerprint")
