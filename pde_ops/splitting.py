"""Take terms out of a system that an integrator treats in its own way: closed-form flows and transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import DeclarationError
from .expr import Call, Constant, Expr, Product, Sum, walk
from .flows import Flow
from .symbols import Field

__all__ = ["FlowTerm", "RotationTerm", "Transport", "take_flows", "take_transport"]

Equations = Mapping[Field, Expr]


@dataclass(frozen=True, slots=True)
class FlowTerm:
    """A term of one field's equation with a closed-form update."""

    field: Field
    call: Call
    flow: Flow


@dataclass(frozen=True, slots=True)
class RotationTerm:
    """A pair of fields turning into each other: d first/dt = +rate·second, d second/dt = -rate·first."""

    first: Field
    second: Field
    rate: Expr


@dataclass(frozen=True, slots=True)
class Transport:
    """Fields carried by one wind."""

    fields: tuple[Field, ...]
    u: Expr
    v: Expr


def take_flows(equations: Equations) -> tuple[dict[Field, Expr], list[FlowTerm | RotationTerm]]:
    """Return the equations without the terms that have a closed-form update, and those terms."""
    rest = {field: list(_terms(right)) for field, right in equations.items()}
    flow_terms: list[FlowTerm | RotationTerm] = []
    for field, terms in rest.items():
        for term in list(terms):
            sign, call = _signed_call(term)
            flow = call.operator.flow if call is not None else None
            if call is None or flow is None:
                continue
            if isinstance(flow, Flow):
                if sign == flow.sign and call.argument(flow.evolves) == field:
                    terms.remove(term)
                    flow_terms.append(FlowTerm(field, call, flow))
            elif sign > 0 and isinstance(partner := call.argument(flow.partner), Field) and partner in rest:
                mirror = -call.rebuild(tuple(field if a == partner else a for a in call.arguments))
                if mirror in rest[partner]:
                    terms.remove(term)
                    rest[partner].remove(mirror)
                    flow_terms.append(RotationTerm(field, partner, call.argument(flow.rate)))
    return {field: _sum(terms, equations[field]) for field, terms in rest.items()}, flow_terms


def take_transport(equations: Equations) -> tuple[dict[Field, Expr], Transport]:
    """Return the equations without their advection terms, and what they carried.

    Raises
    ------
    DeclarationError
        If nothing is advected, the fields are advected by different winds, or a transport term is not of the
        form ``-advection(field, u, v)``: following the air gives V·∇a and nothing else, not the flux form.
    """
    rest: dict[Field, Expr] = {}
    carried: dict[Field, tuple[Expr, Expr]] = {}
    for field, right in equations.items():
        remaining = []
        for term in _terms(right):
            wind = _carrying_wind(term, field)
            if wind is None or field in carried:
                remaining.append(term)
            else:
                carried[field] = wind
        rest[field] = _sum(remaining, right)
        _refuse_leftover(field, rest[field])
    winds = set(carried.values())
    if len(winds) != 1:
        finding = "no field is advected" if not winds else f"{len(winds)} different winds advect"
        raise DeclarationError(f"semi-Lagrangian transport needs one wind: {finding}")
    ((u, v),) = winds
    return rest, Transport(tuple(carried), u, v)


def _carrying_wind(term: Expr, field: Field) -> tuple[Expr, Expr] | None:
    """Return the wind of a term ``-V·∇field``, else None."""
    sign, call = _signed_call(term)
    if call is None or call.operator.wind is None or call.operator.family != "advection":
        return None
    # A flux form ∇·(aV) does not leave a constant alone: it also dilutes where the wind diverges.
    is_advective = call.operator.properties.get("annihilates") == "constants"
    if sign >= 0.0 or not is_advective or call.arguments[0] != field:
        return None
    u, v = (call.argument(name) for name in call.operator.wind)
    return u, v


def _refuse_leftover(field: Field, right: Expr) -> None:
    for node in walk(right):
        if isinstance(node, Call) and node.operator.family == "advection":
            raise DeclarationError(
                f"semi-Lagrangian transport cannot take `{node.text()}` out of the equation of '{field.name}'",
                do=f"write it once, as the term -advection({field.name}, u, v)",
            )


def _terms(right: Expr) -> tuple[Expr, ...]:
    return right.terms if isinstance(right, Sum) else (right,)


def _sum(terms: list[Expr], before: Expr) -> Expr:
    if not terms:
        return Constant(0.0, before.unit)
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def _signed_call(term: Expr) -> tuple[float, Call | None]:
    if isinstance(term, Call):
        return 1.0, term
    if isinstance(term, Product) and len(term.factors) == 2:
        number, call = term.factors
        if isinstance(number, Constant) and abs(number.value) == 1.0 and isinstance(call, Call):
            return number.value, call
    return 0.0, None
