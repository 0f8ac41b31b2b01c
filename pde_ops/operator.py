"""The operator record: a physical process declared with its units, equation, reference and properties."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .errors import DeclarationError, UnitError, UnknownNameError
from .expr import Call, Expr, as_expr
from .flows import Flow, Rotation
from .grid import Grid2D
from .registry import Registry
from .symbols import Symbol
from .units import Unit, same_dimension, show, signature

__all__ = ["Operator", "operator", "operators"]

operators: Registry[Operator] = Registry("operator", group="pde_ops.operators")


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """A declared process; called on expressions it builds a node, called on tensors it computes.

    Attributes
    ----------
    name : registered name
    family : process it is a scheme of (``advection`` for every advection scheme)
    inputs : argument name to unit signature, in order
    output : unit signature of the result
    body : the torch baseline, ``body(*arrays, grid=..., **options)``, written with :mod:`pde_ops.stencils` and
        :mod:`pde_ops.elementwise` only, so that it can also be traced into a fused kernel
    latex, text : templates with ``{argument}`` placeholders
    references : where the formula comes from
    properties : facts that the generic test suite proves (see :mod:`pde_ops.testing`)
    batch_over : argument over which several calls are stacked into one
    options : static keyword options with their defaults
    domain : range of physically sensible values per argument, SI; tests and examples draw from it
    wind : the two arguments that advect, if any: stability limits clamp them
    flow : closed-form update over a time step, if the process has one
    limit : what the scheme converges to on a fine mesh, written on the smooth functions of
        :mod:`pde_ops.testing`: ``limit(*functions, space)``; the declared order is tested against it
    """

    name: str
    family: str
    inputs: Mapping[str, str]
    output: str
    body: Callable[..., Any]
    latex: str
    text: str
    references: Sequence[str]
    properties: Mapping[str, Any] = field(default_factory=dict)
    batch_over: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    domain: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    wind: tuple[str, str] | None = None
    flow: Flow | Rotation | None = None
    limit: Callable[..., Any] | None = None

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.body) or "").strip().partition("\n")[0]

    @property
    def owner(self) -> str:
        """Module that declares it."""
        return str(self.body.__module__)

    def __call__(self, *arguments: Any, grid: Grid2D | None = None, **options: Any) -> Any:
        """Build a node from expressions, or compute on tensors when ``grid`` is given."""
        if any(isinstance(a, torch.Tensor) for a in arguments):
            if grid is None:
                raise DeclarationError(f"{self.name}: tensors need `grid=`", do=f"call {self.name}(…, grid=grid)")
            tensor = next(a for a in arguments if isinstance(a, torch.Tensor))
            return self.body(*arguments, grid=grid.bind(tensor.dtype, tensor.device), **self.complete(options))
        return self.on_expressions(tuple(as_expr(a) for a in arguments), options)

    def complete(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options with defaults filled in; an unknown one is an error."""
        unknown = set(options) - set(self.options)
        if unknown:
            raise DeclarationError(
                f"{self.name}: unknown option {', '.join(map(repr, sorted(unknown)))}",
                do=f"known: {', '.join(self.options) or 'none'}",
            )
        return {**self.options, **options}

    def on_expressions(self, arguments: tuple[Expr, ...], options: Mapping[str, Any]) -> Call:
        """Check arity and units, and build the node."""
        if len(arguments) != len(self.inputs):
            named = sorted(set(options) - set(self.options))
            besides = f" and {', '.join(named)} by name, which it does not know" if named else ""
            raise DeclarationError(
                f"{self.name} takes {len(self.inputs)} arguments ({', '.join(self.inputs)}), "
                f"got {len(arguments)}{besides}",
                do="pass them in this order" if named else None,
            )
        unit = self._infer(arguments)
        return Call(self, arguments, tuple(sorted(self.complete(options).items())), unit)

    def _infer(self, arguments: tuple[Expr, ...]) -> Unit:
        bound: dict[str, Unit] = {}
        for (_, text), argument in zip(self.inputs.items(), arguments, strict=True):
            variable = signature(text).binds
            if variable is not None:
                bound.setdefault(variable, argument.unit)
        for (name, text), argument in zip(self.inputs.items(), arguments, strict=True):
            need = signature(text).resolve(bound)
            if not same_dimension(need, argument.unit):
                raise UnitError(
                    f"{self.name}: `{name}` needs [{show(need)}] but `{argument.text()}` has [{show(argument.unit)}]",
                    do=_mend(argument, need),
                )
        return signature(self.output).resolve(bound)

    def print_text(self, arguments: Sequence[str], options: Mapping[str, Any]) -> str:
        """Plain text of a call."""
        return self.text.format(**dict(zip(self.inputs, arguments, strict=True)), **options)

    def print_latex(self, arguments: Sequence[str], options: Mapping[str, Any]) -> str:
        """LaTeX of a call; single-letter placeholders are replaced, other braces are LaTeX's own."""
        printed = self.latex
        names = {**dict(zip(self.inputs, arguments, strict=True)), **{k: str(v) for k, v in options.items()}}
        # Two passes through private marks, so that an argument containing "{a}" is not substituted again.
        for index, name in enumerate(names):
            printed = printed.replace("{" + name + "}", f"\x00{index}\x00")
        for index, value in enumerate(names.values()):
            printed = printed.replace(f"\x00{index}\x00", value)
        return printed

    def __reduce__(self) -> tuple[Any, ...]:
        # A record holds functions: another process takes the one that is registered there under the same name.
        return registered, (self.name, self.owner)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: [{unit}]" for name, unit in self.inputs.items())
        return f"<operator {self.name}({inputs}) -> [{self.output}]>"


def registered(name: str, owner: str) -> Operator:
    """Return the operator of a name, for copies that another process unpacks.

    Raises
    ------
    UnknownNameError
        If the module that declares it has not been imported; it is not imported here.
    """
    if name not in operators:
        raise UnknownNameError(
            f"operator '{name}' of {owner} is not declared in this process", do=f"import {owner} before unpacking"
        )
    return operators[name]


def _mend(argument: Expr, need: Unit) -> str:
    if isinstance(argument, Symbol):
        return f"declare it as {type(argument).__name__}('{argument.name}', '{show(need)}') or convert when loading"
    return f"pass an expression in [{show(need)}]"


def operator(
    name: str,
    *,
    inputs: Mapping[str, str],
    output: str,
    latex: str,
    references: Sequence[str],
    text: str | None = None,
    family: str | None = None,
    properties: Mapping[str, Any] | None = None,
    batch_over: str | None = None,
    options: Mapping[str, Any] | None = None,
    domain: Mapping[str, tuple[float, float]] | None = None,
    wind: tuple[str, str] | None = None,
    flow: Flow | Rotation | None = None,
    limit: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Operator]:
    """Declare and register an operator; see :class:`Operator` for what the arguments mean.

    Raises
    ------
    DeclarationError, UnitError
        At declaration: unreadable signature, a variable in ``output`` that no input binds, a body whose arguments
        differ from ``inputs``, no reference or no docstring.
    DuplicateNameError
        If the name is taken; both owners are named.
    """

    def declare(body: Callable[..., Any]) -> Operator:
        record = Operator(
            name=name,
            family=family or name,
            inputs=dict(inputs),
            output=output,
            body=body,
            latex=latex,
            text=text or f"{name}({', '.join('{' + argument + '}' for argument in inputs)})",
            references=tuple(references),
            properties=dict(properties or {}),
            batch_over=batch_over,
            options=dict(options or {}),
            domain=dict(domain or {}),
            wind=wind,
            flow=flow,
            limit=limit,
        )
        _check_declaration(record)
        return operators.add(name, record, owner=record.owner)

    return declare


def _check_declaration(record: Operator) -> None:
    problems = []
    bound = {signature(text).binds for text in record.inputs.values()} - {None}
    for label, text in [*record.inputs.items(), ("output", record.output)]:
        unbound = set(signature(text).variables) - bound
        if unbound:
            problems.append(
                f"`{label}` uses unit variable {', '.join(f'={v}' for v in sorted(unbound))} that no input binds"
            )
    parameters = inspect.signature(record.body).parameters
    expected = [*record.inputs, "grid", *record.options]
    if list(parameters) != expected:
        problems.append(f"the body takes ({', '.join(parameters)}), expected ({', '.join(expected)})")
    if not record.references:
        problems.append("no reference is given")
    if not record.summary:
        problems.append("the body has no docstring")
    named = {record.batch_over, *(record.wind or ()), *record.domain} - {None}
    if named - set(record.inputs):
        problems.append(f"{', '.join(sorted(map(repr, named - set(record.inputs))))} is not an input")
    if problems:
        raise DeclarationError(f"operator '{record.name}' ({record.owner}): {'; '.join(problems)}")
