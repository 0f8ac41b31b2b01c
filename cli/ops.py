"""`stationpde ops`: show, check and time the registered operators, those of third parties included."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from cli._console import console, shown
from cli._errors import ExitCode

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Operators: list, show, check, bench.")

Module = Annotated[
    str | None,
    typer.Option("--module", metavar="FILE.py", help="File or module with operators that are not installed."),
]


@app.command("list")
def list_operators(
    pattern: Annotated[str, typer.Argument(help="Shell wildcard, e.g. 'advection*'.")] = "*",
    module: Module = None,
) -> None:
    """List the operators with their units.

    Example: stationpde ops list 'advection*'
    """
    from stationpde.physics import operator_cards

    _load(module)
    cards = operator_cards.cards(pattern)
    columns = ["name", "units", "what it is", "family", "backends", "owner"]
    rows = [[c.name, c.signature, c.summary, c.family, ", ".join(c.backends), c.owner] for c in cards]
    if rows:
        console.table(columns, rows, essential=3)
    else:
        console.note(f"no operator matches '{pattern}'; `stationpde ops list` shows all")
    console.result({"operators": [c.to_json() for c in cards]})


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="Name of an operator, or of a system: surface, anomaly, extended, upper.")
    ],
    markdown: Annotated[bool, typer.Option("--markdown", help="Write a Markdown page instead.")] = False,
    module: Module = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="triton", help="Show the GPU kernels of a system as compiled.")
    ] = None,
    target: Annotated[
        str, typer.Option("--target", metavar="NAME", help="Device for --backend: sm_80, sm_90 or gfx942.")
    ] = "sm_80",
) -> None:
    """Show one operator: equation, units, properties, references, source; or the equations of the model.

    With --backend triton: registers, spills, shared memory, loads, stores and bytes a cell of the kernels of a system.

    Example: stationpde ops show surface --markdown
    """
    from pde_ops import operators
    from stationpde.physics import operator_cards, system_cards

    _load(module)
    if backend is not None:
        _show_kernels(name, backend, target)
        return
    is_system = name in system_cards.SYSTEMS and name not in operators.list()
    chosen = system_cards.card(name) if is_system else operator_cards.card(name)
    console.text(chosen.to_markdown() if markdown else chosen.to_text())
    console.result(chosen.to_json())


@app.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names or wildcards; none means all, or all of --module.")
    ] = None,
    module: Module = None,
) -> None:
    """Run the generic test suite on operators.

    A failed check makes the exit code 1.

    Example: stationpde ops check --module lake.py
    """
    from stationpde.physics import operator_cards

    loaded = _load(module)
    report = operator_cards.check(
        names or loaded, progress=lambda name, wrong: console.note(f"{'FAIL' if wrong else 'ok':<5}{name}")
    )
    for failure in report.failed:
        console.text(f"{failure['operator']}: {failure['check']}: {failure['detail']}")
    many = "1 operator" if report.operators == 1 else f"{report.operators} operators"
    console.text(f"{many}, {report.checks} checks, {len(report.failed)} failed")
    console.result(report.to_json())
    if report.failed:
        raise typer.Exit(ExitCode.BUG)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds: a rough figure.")] = False,
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="Measure on cpu, or the GPU backends on cuda.")
    ] = "cpu",
) -> None:
    """Measure the time of a step of the surface system on this machine.

    The figures are ratios against eager torch, measured side by side. What a step would take on GPUs that are not here
    is estimated from their bandwidth, and says so.

    Example: stationpde ops bench --quick --json
    """
    from pde_ops.benchmarking import device_ratios, estimates, pde_step_ratios

    if device not in ("cpu", "cuda"):
        raise typer.BadParameter(f"--device is cpu or cuda, not {device}")
    console.note("measuring; this takes a while on a busy machine")
    ratios = pde_step_ratios(quick=quick) if device == "cpu" else device_ratios(device, quick=quick)
    guesses = estimates()
    console.table(["quantity", "value"], [[key, shown(value)] for key, value in _flat(ratios)])
    console.table(["a step on a GPU", guesses["basis"]], [[key, shown(value)] for key, value in _flat(guesses)[1:]])
    console.result({"pde_step": ratios, "gpu_estimates": guesses})


def _show_kernels(name: str, backend: str, target: str) -> None:
    from stationpde.physics import kernel_cards

    card = kernel_cards.card(name, backend, target)
    console.text(card.headline())
    console.table(card.COLUMNS, card.rows())
    console.result(card.to_json())


def _load(module: str | None) -> list[str]:
    """Import a module from the current folder and return the names of the operators it declares."""
    if module is None:
        return []
    from pde_ops import PdeOpsError, operators

    path = Path(module)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise typer.BadParameter(f"there is no file {module}")
    if not is_file and not all(part.isidentifier() for part in module.split(".")):
        raise typer.BadParameter(f"{module} is neither a file that ends in .py nor the name of a module")
    sys.path.insert(0, str(path.parent.resolve() if is_file else Path.cwd()))
    before = set(operators.list())
    try:
        loaded = import_module(path.stem if is_file else module)
    except PdeOpsError:
        raise
    except (ArithmeticError, AttributeError, LookupError, NameError, SyntaxError, TypeError, ValueError) as problem:
        # The module is the user's: what it raises is no defect of ours.
        kind = type(problem).__name__
        raise typer.BadParameter(f"{module} fails when it is imported: {kind}: {problem}") from problem
    except SystemExit as problem:  # it would end the command as if all checks had passed
        raise typer.BadParameter(f"{module} ends the process when it is imported: {problem!r}") from problem
    except ModuleNotFoundError as problem:
        if is_file or problem.name != module.partition(".")[0]:
            raise
        raise typer.BadParameter(f"there is no module {module}; a file of your own ends in .py") from problem
    fresh = [name for name in operators.list() if name not in before or operators[name].owner == loaded.__name__]
    if not fresh:
        raise typer.BadParameter(f"{module} declares no operator; @pde_ops.operator does")
    return fresh


def _flat(values: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in values.items():
        pairs += _flat(value, f"{prefix}{key} › ") if isinstance(value, dict) else [(prefix + key, value)]
    return pairs
