"""Start real processes that write stores, without paying for the imports each time.

Run as a program it imports what a writer needs and forks a process for each line that it reads: ``{"code", "words"}``
in, the process number out; ``{"wait"}`` in, the exit code out. The children are processes like any other, to be killed
and interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass
class Writer:
    """One process; its standard output goes to a pipe, its errors to a file."""

    zygote: Zygote
    pid: int
    stdout: Any
    errors: Path
    returncode: int | None = None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None:
            self.returncode = self.zygote.ask({"poll": self.pid})
        return self.returncode

    def wait(self) -> int:
        """Wait for the end and return the exit code; minus the signal's number if one ended it."""
        if self.returncode is None:
            self.returncode = self.zygote.ask({"wait": self.pid})
        return self.returncode

    def output(self) -> str:
        """Wait for the end and return the rest of what it printed."""
        with self.stdout:
            printed = self.stdout.read()
        self.wait()
        return printed

    @property
    def err(self) -> str:
        return self.errors.read_text()


class Zygote:
    """Starts writers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "forked_writers.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            encoding="utf-8", start_new_session=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert self.process.stdout.readline() == "0\n"

    def ask(self, job: dict[str, Any]) -> Any:
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, code: str, *words: object) -> Writer:
        """Start a process that runs ``code`` with these words as its arguments."""
        self.count += 1
        pipe, errors = self.folder / f"out-{self.count}", self.folder / f"err-{self.count}"
        os.mkfifo(pipe)
        job = {"code": code, "words": [str(word) for word in words], "out": str(pipe), "err": str(errors)}
        pid = self.ask(job)
        return Writer(self, pid, pipe.open(encoding="utf-8"), errors)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)


def _run(job: dict[str, Any]) -> None:
    """Turn this forked process into the writer of a job; never returns."""
    for number, name in ((2, "err"), (1, "out")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT, 0o644), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = job["words"]
    try:
        exec(compile(job["code"], "writer", "exec"), {"__name__": "__main__"})
        code = 0
    except BaseException as problem:  # noqa: BLE001 - as the interpreter does
        sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _status(pid: int, options: int = 0) -> int | None:
    ended, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if ended else None


def main() -> None:
    # Before any thread has been started, or a child could wait for a lock that is never released.
    import dask.array  # noqa: F401
    import zarr.codecs  # noqa: F401

    import fields.ingest.pipeline
    import fields.readers.arrays
    import fields.readers.table
    import fields.store.api  # noqa: F401
    import station_records  # noqa: F401

    print(0, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if "code" in job:
            pid = os.fork()
            if pid == 0:
                _run(job)
            print(pid, flush=True)
        elif "wait" in job:
            print(_status(job["wait"]), flush=True)
        else:
            print(json.dumps(_status(job["poll"], os.WNOHANG)), flush=True)


if __name__ == "__main__":
    main()
