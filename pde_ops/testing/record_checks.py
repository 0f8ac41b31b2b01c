"""Checks of what an operator declares: documentation, printing, units, closed-form update."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import constants
from ..errors import UnitError
from ..flows import Flow
from ..grid import Grid2D
from ..operator import Operator
from ..symbols import Field
from ..units import Unit, parse_unit, registry, show, signature
from .results import CheckFailure
from .samples import difference, inputs, latlon

__all__ = ["argument_units", "check_documentation", "check_flow", "check_printing", "check_scaling", "check_units"]


def check_documentation(record: Operator) -> str:
    """Docstring with equation, parameters and units; a reference with author and year."""
    text = inspect.getdoc(record.body) or ""
    missing = [part for part in (".. math::", "Parameters\n", "Returns\n") if part not in text]
    if missing:
        raise CheckFailure(f"the docstring lacks {', '.join(repr(part.strip()) for part in missing)}")
    described = text.partition("Parameters\n")[2]
    for name in (*record.inputs, *record.options):
        if not re.search(rf"^(?:\w+, )*{re.escape(name)}(?:, \w+)* :", described, re.MULTILINE):
            raise CheckFailure(f"the docstring does not describe `{name}` with its unit, as in '{name} : m/s'")
    vague = [reference for reference in record.references if not re.search(r"\(\d{4}\)", reference)]
    if vague:
        raise CheckFailure(f"reference {vague[0]!r} has no year in brackets")
    return f"{len(text.splitlines())} lines, {len(record.references)} reference"


def check_printing(record: Operator) -> str:
    """LaTeX and text print every argument and leave no placeholder or brace open."""
    marks = [f"X{index}X" for index, _ in enumerate(record.inputs)]
    for kind, printed in (
        ("latex", record.print_latex(marks, record.options)),
        ("text", record.print_text(marks, record.options)),
    ):
        for name, mark in zip(record.inputs, marks, strict=True):
            if mark not in printed:
                raise CheckFailure(f"`{kind}` does not show `{name}`: {printed}")
        if printed.count("{") != printed.count("}"):
            raise CheckFailure(f"`{kind}` has unbalanced braces: {printed}")
        for name in (*record.inputs, *record.options):
            if kind == "text" and "{" + name + "}" in printed:
                raise CheckFailure(f"`{kind}` keeps the placeholder {{{name}}}: {printed}")
    return record.print_text(list(record.inputs), record.options)


def argument_units(record: Operator) -> tuple[list[Unit], Unit]:
    """Return units of the inputs and of the result, with kelvin for the first unit variable, kg/m³ for the next."""
    stand_ins = ("K", "kg/m**3", "m", "s")
    names = sorted({v for text in record.inputs.values() for v in signature(text).variables})
    bound = {name: parse_unit(unit) for name, unit in zip(names, stand_ins, strict=False)}
    return [signature(text).resolve(bound) for text in record.inputs.values()], signature(record.output).resolve(bound)


def check_units(record: Operator) -> str:
    """Check that the signature resolves, and an argument in a wrong unit is refused by name."""
    units, output = argument_units(record)
    fields = [Field(f"argument_{k}", unit) for k, unit in enumerate(units)]
    call = record(*fields)
    if call.unit.dimensionality != output.dimensionality:
        raise CheckFailure(f"the result has [{show(call.unit)}], the signature says [{show(output)}]")
    for k, (name, text) in enumerate(record.inputs.items()):
        if signature(text).binds is not None:
            continue
        wrong = Field("wrong", units[k] * registry.mole)
        try:
            record(*fields[:k], wrong, *fields[k + 1 :])
        except UnitError as problem:
            if f"`{name}`" not in str(problem):
                raise CheckFailure(f"the error of a wrong unit does not name `{name}`: {problem}") from None
        else:
            raise CheckFailure(f"`{name}` in [{show(wrong.unit)}] is accepted for [{text}]")
    return f"result in [{show(output)}]"


def check_scaling(record: Operator) -> str:
    """Check that the body computes what the units say: in other base units the result changes as its unit does.

    Metre, second, kilogram, kelvin and every unit variable are rescaled at random. Constants with a dimension that the
    body contains are declared as the property ``constants``; scales are then drawn that leave those unchanged.
    """
    dimensions = _dimensions(record)
    held = [_powers(_unit_of_constant(name), dimensions) for name in record.properties.get("constants", ())]
    # Powers of two rescale floats exactly; the projection on what keeps the constants spoils that, hence the tolerance.
    logarithms = np.array([math.log(2.0) * k for k in (3, -2, 1, -1, 2, -3, 4)][: len(dimensions)])
    logarithms = np.pad(logarithms, (0, len(dimensions) - logarithms.size), constant_values=math.log(2.0))
    if held:
        basis = np.array(held)
        logarithms = logarithms - np.linalg.pinv(basis) @ (basis @ logarithms)

    def factor(text: str) -> float:
        return math.exp(float(_signature_powers(text, dimensions) @ logarithms))

    grid = latlon("zero_gradient")
    arrays = inputs(record, grid)
    before = record(*arrays, grid=grid)
    other = _rescaled(grid, factor("m"), factor("s"))
    after = record(*(a * factor(t) for a, t in zip(arrays, record.inputs.values(), strict=True)), grid=other)
    if (off := difference(after, before * factor(record.output))) > 1e-8:
        raise CheckFailure(
            f"in other base units the result does not change as [{record.output}] does (off by {off:.1e}): the output "
            "unit is wrong, or a constant with a dimension is not declared under `constants`"
        )
    return f"homogeneous in {', '.join(dimensions)}"


def check_flow(record: Operator) -> str:
    """Check that the closed-form update solves its equation: right rate at the start, and two half steps make one."""
    flow = record.flow
    if not isinstance(flow, Flow):
        return "no closed form of one field"
    grid = latlon()
    arrays = inputs(record, grid)
    position = tuple(record.inputs).index(flow.evolves)
    rate = flow.sign * record(*arrays, grid=grid)
    pace = float((rate.abs() / arrays[position].abs().clamp_min(1e-30)).median())
    dt = 0.5 / pace
    tiny = 1e-7 * dt
    slope = (flow.update(*arrays, dt=tiny) - arrays[position]) / tiny
    # The update is smooth in dt, so the one-sided slope is off by about 1e-7, and by round-off over 1e-7.
    if (off := difference(slope, rate)) > 1e-5:
        raise CheckFailure(f"the update starts at another rate than {flow.sign:+g} times the body, by {off:.1e}")
    half = list(arrays)
    half[position] = flow.update(*arrays, dt=0.5 * dt)
    if (off := difference(flow.update(*half, dt=0.5 * dt), flow.update(*arrays, dt=dt))) > 1e-12:
        raise CheckFailure(f"two updates over half a step differ from one over the whole by {off:.1e}")
    return "rate and composition of the closed form"


def _unit_of_constant(name: str) -> str:
    """Return the unit of a constant of this library by name; a third party may give the unit itself."""
    constant = getattr(constants, name, None)
    return constant.unit if isinstance(constant, constants.Constant) else name


def _dimensions(record: Operator) -> list[str]:
    texts = ["m", "s", *record.inputs.values(), record.output]
    texts += [_unit_of_constant(name) for name in record.properties.get("constants", ())]
    names: dict[str, None] = {}
    for text in texts:
        one = signature(text)
        names.update(dict.fromkeys(one.fixed.dimensionality))
        names.update(dict.fromkeys(f"={variable}" for variable in one.variables))
    return list(names)


def _powers(text: str, dimensions: Sequence[str]) -> list[float]:
    one = signature(text)
    powers: dict[str, Any] = {**one.fixed.dimensionality}
    powers.update({f"={name}": power for name, power in one.variables.items()})
    return [float(powers.get(name, 0.0)) for name in dimensions]


def _signature_powers(text: str, dimensions: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(_powers(text, dimensions))


def _rescaled(grid: Grid2D, metre: float, second: float) -> Grid2D:
    return Grid2D(
        ny=grid.ny,
        nx=grid.nx,
        dy=grid.dy * metre,
        dx=grid.dx * metre,
        lat=grid.lat,
        f=grid.f / second,
        curvature=grid.curvature / metre,
        boundary=grid.boundary,
    )
