"""Saved fits of a model before its first step: cells that would fit the same, as in an ablation, fit it once.

The CPU time is still charged to each of them, so that a cell costs what it would cost alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic
from stationpde.errors import CorruptArtefactError
from stationpde.runs import encode, read_sealed, read_tensors, write_sealed

if TYPE_CHECKING:
    from stationpde.data import WindowSource

__all__ = ["Preparations"]


class Preparations:
    """Buffers that learners fitted, by the settings they depend on; only learners with ``preparation`` are saved.

    Parameters
    ----------
    folder : folder of the files; a damaged one is fitted again
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def restore(self, learner: Any, source: WindowSource) -> float | None:
        """Load the fit of another learner; return the CPU seconds that it took, or None if there is none."""
        facts, tensors = self._files(learner, source) or (None, None)
        if facts is None or tensors is None or not facts.exists():
            return None
        try:
            about = read_sealed(facts)
            if hashlib.sha256(atomic.read_regular(tensors)).hexdigest() != about["sha256"]:
                return None
            learner.take_prepared(read_tensors(tensors))
        except (CorruptArtefactError, atomic.NotRegularFileError, OSError):
            return None
        return float(about["cpu_seconds"])

    def save(self, learner: Any, source: WindowSource, cpu_seconds: float) -> None:
        """Save the buffers that a learner has just fitted."""
        facts, tensors = self._files(learner, source) or (None, None)
        if facts is None or tensors is None:
            return
        content = encode(learner.prepared())
        with atomic.machine_faults(tensors):
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic.write_file(tensors, content)
        write_sealed(facts, {"sha256": hashlib.sha256(content).hexdigest(), "cpu_seconds": cpu_seconds})

    def _files(self, learner: Any, source: WindowSource) -> tuple[Path, Path] | None:
        preparation = learner.preparation() if hasattr(learner, "preparation") else None
        if preparation is None:
            return None
        about = {"data": source.fingerprint, "split": repr(source.windows.split), "of": preparation}
        name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / f"{name}.json", self.folder / f"{name}.safetensors"
