"""The generic suite: every check an operator can be put through, from its declaration alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..errors import PdeOpsError
from ..operator import Operator, operators
from .backend_checks import check_fused
from .property_checks import PROPERTY_CHECKS, check_order, check_translation, check_vocabulary
from .record_checks import check_documentation, check_flow, check_printing, check_scaling, check_units
from .results import CheckFailure, CheckResult, CheckSkipped
from .samples import BORDERS
from .tensor_checks import (
    check_batches,
    check_compilation,
    check_device,
    check_gradients,
    check_inputs_kept,
    check_kinks,
    check_nan,
    check_scalars,
    check_shapes,
    check_stacking,
)

__all__ = ["BORDER_CHECKS", "CHECKS", "assert_operator", "check_operator"]

CHECKS: dict[str, Callable[[Operator], str]] = {
    "documentation": check_documentation,
    "printing": check_printing,
    "vocabulary": check_vocabulary,
    "units": check_units,
    "scaling": check_scaling,
    "shapes": check_shapes,
    "device": check_device,
    "inputs kept": check_inputs_kept,
    "kinks": check_kinks,
    "batches": check_batches,
    "stacking": check_stacking,
    "scalars": check_scalars,
    "compilation": check_compilation,
    "translation": check_translation,
    "order": check_order,
    "flow": check_flow,
}
"""Checks that do not depend on the border."""

BORDER_CHECKS: dict[str, Callable[[Operator, str], str]] = {"gradients": check_gradients, "nan": check_nan}
"""Checks run for every border, next to those of the declared properties."""

_FUSED_BORDERS = ("reflecting-zero_gradient", "periodic")
# A body is foreign code: whatever ordinary error it raises is a finding, not an accident of the suite.
_FINDINGS = (
    ArithmeticError, AttributeError, AssertionError, LookupError, NotImplementedError, PdeOpsError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip


def check_operator(
    operator: Operator | str, *, borders: Sequence[str] = tuple(BORDERS), fused: bool = True
) -> list[CheckResult]:
    """Run the whole generic suite on an operator.

    Parameters
    ----------
    operator : a record, or the name of a registered one
    borders : names in :data:`BORDERS` for the checks that depend on the border
    fused : also compare the fused backend with the baseline, which compiles kernels
    """
    record = operators[operator] if isinstance(operator, str) else operator
    return [_run(label, check) for label, check in _plan(record, borders, fused)]


def assert_operator(operator: Operator | str, *, borders: Sequence[str] = tuple(BORDERS), fused: bool = True) -> None:
    """Raise AssertionError naming every check of the generic suite that an operator fails."""
    failed = [result for result in check_operator(operator, borders=borders, fused=fused) if not result.passed]
    if failed:
        name = operator if isinstance(operator, str) else operator.name
        raise AssertionError("\n".join([f"operator '{name}' fails {len(failed)} checks:", *map(str, failed)]))


def _plan(record: Operator, borders: Sequence[str], fused: bool) -> Iterator[tuple[str, Callable[[], str]]]:
    for name, check in CHECKS.items():
        yield name, lambda check=check: check(record)  # type: ignore[misc]
    for border in borders:
        for name, border_check in BORDER_CHECKS.items():
            yield f"{name} [{border}]", lambda check=border_check, at=border: check(record, at)  # type: ignore[misc]
        for name in record.properties:
            if name in PROPERTY_CHECKS:
                yield f"{name} [{border}]", lambda name=name, at=border: _property(record, name, at)  # type: ignore[misc]
    if fused:
        for border in _FUSED_BORDERS:
            yield f"fused [{border}]", lambda at=border: check_fused(record, at)  # type: ignore[misc]


def _property(record: Operator, name: str, border: str) -> str:
    value = record.properties[name]
    PROPERTY_CHECKS[name](record, border, value)
    return f"{name}: {value}"


def _run(label: str, check: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(label, True, check())
    except CheckSkipped as reason:
        return CheckResult(label, True, str(reason), skipped=True)
    except CheckFailure as problem:
        return CheckResult(label, False, str(problem))
    except _FINDINGS as problem:
        words = " ".join(str(problem).split())
        return CheckResult(label, False, f"raised {type(problem).__name__}: {words[:300]}")
