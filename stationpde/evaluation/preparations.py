"""What a model fits before its first step, kept: cells that would fit the same, as those of an ablation, fit it once.

Its CPU time is charged to each of them all the same, so that a cell costs what it would alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fields import atomic
from stationpde.errors import CorruptArtefactError
from stationpde.training.sealed import read_sealed, write_sealed
from stationpde.training.tensor_file import encode, read_tensors

if TYPE_CHECKING:
    from stationpde.training.source import WindowSource

__all__ = ["Preparations"]


class Preparations:
    """Buffers that learners fitted, by what they depend on; a learner without ``preparation`` is never kept.

    Parameters
    ----------
    folder : where they are kept; what is damaged there is fitted again
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def restored(self, learner: Any, source: WindowSource) -> float | None:
        """Give a learner what another fitted; the CPU seconds that it took then, None if nobody has."""
        facts, tensors = self._files(learner, source) or (None, None)
        if facts is None or tensors is None or not facts.exists():
            return None
        try:
            about = read_sealed(facts)
            if hashlib.sha256(tensors.read_bytes()).hexdigest() != about["sha256"]:
                return None
            learner.take_prepared(read_tensors(tensors))
        except (CorruptArtefactError, OSError):
            return None
        return float(about["cpu_seconds"])

    def keep(self, learner: Any, source: WindowSource, cpu_seconds: float) -> None:
        """Keep what a learner has just fitted."""
        facts, tensors = self._files(learner, source) or (None, None)
        if facts is None or tensors is None:
            return
        content = encode(learner.prepared())
        with atomic.machine_faults(tensors):
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic.write_file(tensors, content)
        write_sealed(facts, {"sha256": hashlib.sha256(content).hexdigest(), "cpu_seconds": cpu_seconds})

    def _files(self, learner: Any, source: WindowSource) -> tuple[Path, Path] | None:
        found = learner.preparation() if hasattr(learner, "preparation") else None
        if found is None:
            return None
        about = {"data": source.fingerprint, "split": repr(source.windows.split), "of": found}
        name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / f"{name}.json", self.folder / f"{name}.safetensors"
