"""Scalars for TensorBoard, an extra."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stationpde.errors import ResourceError

__all__ = ["Board"]


class Board:
    """Writes ``folder`` for TensorBoard; steps after ``step`` that an earlier process wrote are hidden.

    Raises
    ------
    ResourceError
        If TensorBoard is not installed.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ResourceError(
                "TensorBoard is not installed", code="SPDE-T074", do='pip install "stationpde[tensorboard]"'
            ) from None
        self._writer: Any = SummaryWriter(str(folder), purge_step=step + 1)

    def add(self, group: str, values: Mapping[str, float], step: int) -> None:
        """Write the values of a step."""
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        """Write the remaining values and close the file."""
        self._writer.close()
