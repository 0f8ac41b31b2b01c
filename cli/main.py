"""Root of the `stationpde` command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cli._console import console
from cli._errors import Boundary, ExitCode, explain, report
from cli._globals import GLOBAL_OPTIONS, take_globals
from cli._lazy import LazyGroup
from cli._renamed import present_names

__all__ = ["app", "main"]


class Root(LazyGroup):
    """Root group: global options from anywhere on the line, old names, and an exit code for every exception."""

    def main(self, args: Sequence[str] | None = None, *ignored: Any, **extra: Any) -> Any:
        """Run one invocation and end the process with its exit code."""
        settings, rest = take_globals(list(sys.argv[1:] if args is None else args))
        console.configure(settings)
        extra.update(standalone_mode=False, prog_name="stationpde")
        with Boundary(rest) as boundary:
            _refuse_empty(rest)
            returned = super().main(rest or ["--help"], **extra)
            boundary.exit_code = returned if isinstance(returned, int) else ExitCode.OK
            if returned == ExitCode.INTERRUPTED:
                report(explain(KeyboardInterrupt()))
        sys.exit(int(boundary.exit_code))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse a line; old names of commands and options are replaced, each with a warning."""
        words, warnings = present_names(args)
        # Of several ranks, which all parse the same line, the first warns.
        for warning in warnings if os.environ.get("RANK", "0") == "0" else ():
            console.note(warning)
        return super().parse_args(ctx, words)


def _refuse_empty(words: Sequence[str]) -> None:
    """Refuse an empty word: an unset variable of a shell, which would be read as this folder or as the default."""
    for before, word in zip(["", *words], words):
        if not word.strip() or (word.startswith("--") and word.endswith("=") and word.count("=") == 1):
            option = word.rstrip("=").strip() or (before if before.startswith("-") else "an argument")
            raise typer.BadParameter("it is empty; is a variable of the shell unset?", param_hint=option)


def _version(is_requested: bool) -> None:
    if is_requested:
        import stationpde

        console.text(f"stationpde {stationpde.__version__}")
        console.result({"version": stationpde.__version__})
        raise typer.Exit


app = typer.Typer(
    name="stationpde",
    cls=Root,
    # Plain help: the decorated one costs another 0.1 s of imports at every `--help`.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 bug, 2 usage, 3 data, 4 config, 5 artefact, 6 diverged, 7 resource, "
    "8 locked, 75 resumable, 130 Ctrl-C.",
)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help=GLOBAL_OPTIONS["--json"])] = False,
    debug: Annotated[bool, typer.Option("--debug", help=GLOBAL_OPTIONS["--debug"])] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help=GLOBAL_OPTIONS["-v, --verbose"])] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help=GLOBAL_OPTIONS["-q, --quiet"])] = False,
) -> None:
    """Train and run surface-weather PDEs that learn from stations.

    --json, --debug, -v and -q may stand anywhere on the line.

    Example: stationpde ops show advection
    """
    # The four switches are declared for `--help`; their values were taken from the line before it was parsed.
    console.start_logging()


def main() -> None:
    """Run the command; the entry point of the console script."""
    # A stream that the caller has closed is None: what would be printed there is lost, not the command.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    app()


if __name__ == "__main__":
    main()
