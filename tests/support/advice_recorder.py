"""Watch every error and finding that the tests of this process meet, and hold its advice against the command line."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["AdviceRecorder"]


class AdviceRecorder:
    """Hooks of the constructors of errors: what they advise, and what is wrong with it.

    Attributes
    ----------
    met : code, advice and place of every error and finding, each once.
    faults : what is wrong with advice since the last call of `take_faults`.
    """

    def __init__(self) -> None:
        self.met: set[tuple[str, str, str]] = set()
        self.faults: list[str] = []
        self.running: tuple[str, ...] | None = None

    def install(self) -> None:
        """Hook the bases of all errors, findings that are shown, failures of the command and the command itself."""
        from cli._errors import Failure
        from cli.main import Root
        from fields.errors import FieldsError, Problem, ProblemReport
        from pde_ops.errors import PdeOpsError

        # While an error is on its way the command may still complete its advice: options of any command are accepted.
        self._after(FieldsError, "__init__", lambda error: self.record(error.code, error.do, error.where))
        self._after(PdeOpsError, "__init__", lambda error: self.record(error.code, getattr(error, "do", None), None))
        self._after(Problem, "__post_init__", lambda problem: self.record(problem.code, problem.do, problem.where))
        # What is printed is what the user of this command types.
        self._after(Failure, "__init__", lambda failure: self._shown(failure.code, failure.do, failure.where))
        self._after(ProblemReport, "lines", lambda report: [self._shown(p.code, p.do, p.where) for p in report])
        self._around_commands(Root)

    def take_faults(self) -> list[str]:
        """Return the faults of advice so far, and forget them."""
        faults, self.faults = self.faults, []
        return faults

    def record(self, code: str, do: str | None, where: str | None, running: tuple[str, ...] | None = None) -> None:
        """Keep an advice and check it."""
        if not do:
            return
        self.met.add((code, do, where or ""))
        if "stationpde" in do or "--" in do:
            from advice import faults_of

            self.faults += [f"{code} advises '{do}': {fault}" for fault in faults_of(do, running)]

    def _shown(self, code: str, do: str | None, where: str | None) -> None:
        self.record(code, do, where, self.running)

    @staticmethod
    def _after(kind: type, name: str, then: Callable[[Any], Any]) -> None:
        method = getattr(kind, name)

        @wraps(method)
        def hooked(self: Any, *arguments: Any, **words: Any) -> Any:
            answer = method(self, *arguments, **words)
            then(self)
            return answer

        setattr(kind, name, hooked)

    def _around_commands(self, kind: Any) -> None:
        main = kind.main

        @wraps(main)
        def hooked(command: Any, args: Any = None, *rest: Any, **words: Any) -> Any:
            from advice import running_command

            before, self.running = self.running, running_command([str(word) for word in args or ()])
            try:
                return main(command, args, *rest, **words)
            finally:
                self.running = before

        kind.main = hooked
