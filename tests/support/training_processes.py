"""Real training processes, started without paying for torch's import each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass
class Training:
    """One training process."""

    zygote: Zygote
    pid: int
    log: Path

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit code; minus the signal's number if one ended it."""
        return int(self.zygote.ask({"wait": self.pid})["status"])

    @property
    def err(self) -> str:
        return Path(f"{self.log}.err").read_text()

    @property
    def result(self) -> dict[str, Any]:
        return json.loads(Path(f"{self.log}.out").read_text())


class Zygote:
    """Starts training processes (see ``training_zygote.py``)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "training_zygote.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            encoding="utf-8", start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, run: Path, **job: Any) -> Training:
        self.count += 1
        log = self.folder / f"log-{self.count}"
        return Training(self, self.ask({"run": str(run), "log": str(log), **job})["pid"], log)

    def finish(self, run: Path, **job: Any) -> tuple[int, Training]:
        """Start one and wait for its end."""
        training = self.start(run, **job)
        return training.wait(), training


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    """Until something happened in another process."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)
