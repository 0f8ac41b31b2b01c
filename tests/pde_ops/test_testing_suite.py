"""The suite itself: it passes sound operators of third parties and catches each kind of broken one."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pde_ops import Grid2D, Operator, operator, operators
from pde_ops.elementwise import maximum, sqrt
from pde_ops.stencils import around, ddx
from pde_ops.testing import (
    SETTINGS,
    CheckResult,
    Space,
    assert_operator,
    check_operator,
    observed_order,
    scheme_errors,
)
from pde_ops.testing.backend_checks import check_fused
from pde_ops.testing.results import CheckFailure

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def declare() -> Iterator[Callable[..., Operator]]:
    """Declare an operator for the length of one test: a sound ``slope`` in all that is not said otherwise."""
    names: list[str] = []

    def make(body: Callable[..., Any], **changes: Any) -> Operator:
        body.__doc__ = changes.pop("doc", _DOC)
        declaration: dict[str, Any] = {
            "inputs": {"a": "=A"},
            "output": "=A / m",
            "latex": r"\delta {a}",
            "text": "δ{a}",
            "references": ["Nobody (2000), Nowhere 1, Eq. 1"],
        }
        declaration.update(changes)
        record = operator(f"third_party_{len(names)}", **declaration)(body)
        names.append(record.name)
        return record

    yield make
    for name in names:
        operators.remove(name)


_DOC = """Slope.

.. math:: a_x

Parameters
----------
a : any unit [A]
b : any unit [A]

Returns
-------
A/m
"""


def failed(record: Operator, borders: tuple[str, ...] = ("zero_gradient",)) -> dict[str, str]:
    results = check_operator(record, borders=borders, fused=False)
    return {result.check.partition(" [")[0]: result.detail for result in results if not result.passed}


def test_a_sound_operator_declared_by_decorator_passes_the_whole_suite(declare: Callable[..., Operator]) -> None:
    record = declare(
        lambda a, *, grid: ddx(a, grid),
        properties={"linear_in": ("a",), "annihilates": "constants", "order": 2, "parity": {"x": "odd", "y": "even"}},
        batch_over="a",
        limit=lambda a, space: a.x,
    )
    assert_operator(record, fused=False)


_PLUGIN = '''
from pde_ops import operator
from pde_ops.stencils import ddy

@operator("northward_slope", inputs={"a": "=A"}, output="=A / m", latex=r"\\\\partial_y {a}", text="∂y {a}",
          references=["Nobody (2000), Nowhere 1, Eq. 1"], limit=lambda a, space: a.y,
          properties={"linear_in": ("a",), "annihilates": "constants", "order": 2})
def northward_slope(a, *, grid):
    """Slope northwards.

    .. math:: a_y

    Parameters
    ----------
    a : any unit [A]

    Returns
    -------
    A/m
    """
    return ddy(a, grid)
'''

_RUN = """
import json, sys
import pde_ops
listed, imported = "northward_slope" in pde_ops.operators.list(), "their_plugin" in sys.modules
from pde_ops.testing import check_operator
results = check_operator("northward_slope", borders=("periodic", "reflecting"), fused=False)
print(json.dumps({"listed": listed, "imported": imported, "owner": pde_ops.operators.owner("northward_slope"),
                  "checks": len(results), "failed": [str(r) for r in results if not r.passed]}))
"""


def test_an_operator_published_by_an_entry_point_passes_the_whole_suite(tmp_path: Path) -> None:
    (tmp_path / "their_plugin.py").write_text(_PLUGIN)
    info = tmp_path / "their_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pde_ops.operators]\nnorthward_slope = their_plugin:northward_slope\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _RUN], env=environment, capture_output=True, text=True, timeout=110, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["listed"] and not seen["imported"], "a plug-in is listed without being imported"
    assert seen["owner"] == "their_plugin"
    assert seen["checks"] > 20 and seen["failed"] == []


def test_a_wrong_sign_is_caught(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: -ddx(a, grid), properties={"order": 2}, limit=lambda a, space: a.x)
    assert "does not approach its limit" in failed(record)["order"]


def test_a_wrong_order_is_caught(declare: Callable[..., Operator]) -> None:
    def one_sided(a: Any, *, grid: Any) -> Any:
        return (around(a, grid)[1, 0] - a) / grid.dx

    record = declare(one_sided, properties={"order": 2}, limit=lambda a, space: a.x)
    assert "observed order 1.0" in failed(record)["order"]


def test_an_order_without_a_limit_is_caught(declare: Callable[..., Operator]) -> None:
    assert "no `limit`" in failed(declare(lambda a, *, grid: ddx(a, grid), properties={"order": 2}))["order"]


def test_a_wrong_output_unit_is_caught(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: ddx(a, grid), output="=A / m**2")
    assert "the output unit is wrong" in failed(record)["scaling"]


def test_an_undeclared_constant_with_a_dimension_is_caught_and_a_declared_one_is_not(
    declare: Callable[..., Operator],
) -> None:
    changes = {"inputs": {"a": "K"}, "output": "K"}
    hidden = declare(lambda a, *, grid: a + 273.15, **changes)
    named = declare(lambda a, *, grid: a + 273.15, **changes, properties={"constants": ("T_zero_celsius",)})
    assert "scaling" in failed(hidden)
    assert "scaling" not in failed(named)


def test_a_write_into_an_input_is_caught(declare: Callable[..., Operator]) -> None:
    def careless(a: Any, *, grid: Any) -> Any:
        result = ddx(a, grid)
        if not a.requires_grad:
            a.mul_(2.0)
        return result

    assert "`a` is changed in place" in failed(declare(careless))["inputs kept"]


def test_a_tensor_left_on_the_cpu_is_caught(declare: Callable[..., Operator]) -> None:
    def careless(a: Any, *, grid: Any) -> Any:
        return ddx(a, grid) * torch.ones(grid.ny, grid.nx, dtype=a.dtype, device="cpu")

    assert "device" in failed(declare(careless))


def test_a_changed_dtype_is_caught(declare: Callable[..., Operator]) -> None:
    assert "float64" in failed(declare(lambda a, *, grid: ddx(a, grid).double()))["shapes"]


def test_a_swallowed_nan_is_caught(declare: Callable[..., Operator]) -> None:
    def hides(a: Any, *, grid: Any) -> Any:
        return maximum(0.0 * grid.dx, a) / grid.dx  # NaN propagates from the first argument only

    assert "vanishes" in failed(declare(hides))["nan"]


def test_an_infinite_slope_at_a_kink_is_caught(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: sqrt(a * a) / grid.dx)
    assert "`a` is not finite" in failed(record)["kinks"]


def test_a_wrong_derivative_is_caught(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: a * a.detach() / grid.dx)
    assert "finite differences" in failed(record)["gradients"]


def test_dependence_on_batch_mates_is_caught(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: ddx(a, grid) / (1.0 + a.abs().mean()))
    assert "differs from itself alone" in failed(record)["batches"]


def test_a_graph_break_is_caught(declare: Callable[..., Operator]) -> None:
    def decides(a: Any, *, grid: Any) -> Any:
        return ddx(a, grid) if float(a.detach().flatten()[0]) > -math.inf else a / grid.dx

    assert "compilation" in failed(declare(decides))


def test_dependence_on_position_is_caught(declare: Callable[..., Operator]) -> None:
    def anchored(a: Any, *, grid: Any) -> Any:
        return ddx(a, grid) * torch.arange(grid.nx, dtype=a.dtype, device=a.device)

    assert "translation" in failed(declare(anchored))


@pytest.mark.parametrize(
    ("properties", "check"),
    [
        ({"linear_in": ("a",)}, "linear_in"),
        ({"annihilates": "constants"}, "annihilates"),
        ({"conserves": ("zero_gradient",)}, "conserves"),
        ({"dissipates": "a"}, "dissipates"),
        ({"parity": {"x": "odd", "y": "even"}}, "parity"),
        ({"sign": "nonpositive"}, "sign"),
        ({"bounds": (0.0, 1e-9)}, "bounds"),
        ({"increasing_in": ("a",)}, "increasing_in"),
        ({"decreasing_in": ("a",)}, "decreasing_in"),
        ({"monotone": True}, "vocabulary"),
    ],
)
def test_every_property_can_be_found_false(
    properties: dict[str, Any], check: str, declare: Callable[..., Operator]
) -> None:
    # a² / dx has none of them.
    assert check in failed(declare(lambda a, *, grid: a * a / grid.dx, properties=properties))


@pytest.mark.parametrize("several", [False, True])
def test_a_single_name_may_be_declared_without_brackets(several: bool, declare: Callable[..., Operator]) -> None:
    names = ("height",) if several else "height"
    record = declare(
        lambda height, *, grid: height / grid.dx,
        inputs={"height": "=A"},
        doc=_DOC.replace("a : any", "height : any"),
        latex="{height}",
        properties={"linear_in": names, "increasing_in": names},
    )
    assert not {"linear_in", "increasing_in"} & set(failed(record))
    square = declare(
        lambda height, *, grid: height * height / grid.dx, inputs={"height": "=A"}, properties={"linear_in": names}
    )
    assert "not linear in height" in failed(square)["linear_in"]


def test_a_claim_to_be_pointwise_is_caught(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: ddx(a, grid), properties={"pointwise": True})
    assert "changes the result at" in failed(record)["pointwise"]


def test_a_missing_section_and_an_undescribed_argument_are_caught(declare: Callable[..., Operator]) -> None:
    bare = declare(lambda a, *, grid: ddx(a, grid), doc="Slope.")
    silent = declare(lambda a, *, grid: ddx(a, grid), doc=_DOC.replace("a : any", "z : any"))
    assert "Parameters" in failed(bare)["documentation"]
    assert "`a`" in failed(silent)["documentation"]


def test_an_argument_that_the_formula_does_not_show_is_caught(declare: Callable[..., Operator]) -> None:
    assert "does not show `a`" in failed(declare(lambda a, *, grid: ddx(a, grid), latex=r"\delta"))["printing"]


def test_stacked_calls_that_mix_are_caught(declare: Callable[..., Operator]) -> None:
    def mixes(a: Any, *, grid: Any) -> Any:
        return ddx(a, grid) if a.ndim < 4 else ddx(a.flip(1), grid)

    assert "stacking" in failed(declare(mixes, batch_over="a"))


def test_a_body_that_raises_is_a_finding_and_does_not_stop_the_suite(declare: Callable[..., Operator]) -> None:
    def refuses(a: Any, *, grid: Any) -> Any:
        raise ValueError("not today")

    results = check_operator(declare(refuses), borders=("periodic",), fused=False)
    assert any("raised ValueError: not today" in r.detail for r in results if not r.passed)
    assert any(r.passed and r.check == "documentation" for r in results)


def test_a_fused_kernel_that_computes_something_else_is_caught(declare: Callable[..., Operator]) -> None:
    def two_faced(a: Any, *, grid: Any) -> Any:
        return ddx(a, grid) if isinstance(a, torch.Tensor) else 2.0 * ddx(a, grid)

    with pytest.raises(CheckFailure, match="fused and torch differ by"):
        check_fused(declare(two_faced), "periodic")


def test_an_operator_without_a_fused_form_is_skipped_with_the_reason(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: a.cumsum(-1) / grid.dx)
    results = {r.check: r for r in check_operator(record, borders=(), fused=True)}
    skipped = results["fused [periodic]"]
    assert skipped.passed and skipped.skipped and "has no fused form" in skipped.detail


def test_assert_operator_names_every_failed_check(declare: Callable[..., Operator]) -> None:
    record = declare(lambda a, *, grid: ddx(a, grid), output="=A / m**2", latex=r"\delta")
    with pytest.raises(AssertionError, match=r"fails 2 checks:[\s\S]*printing[\s\S]*scaling"):
        assert_operator(record, borders=("periodic",), fused=False)


def test_an_operator_is_found_by_name() -> None:
    results = check_operator("friction", borders=("periodic",), fused=False)
    assert all(isinstance(result, CheckResult) and result.passed for result in results)


def test_observed_order_reads_the_last_refinement() -> None:
    assert observed_order([9.0, 0.8, 0.1]) == pytest.approx(3.0)
    assert observed_order([0.9, 0.1], ratio=3.0) == pytest.approx(2.0)


def test_smooth_functions_have_exact_derivatives_on_the_sphere() -> None:
    space = Space.sphere()
    east, north = torch.tensor([0.3, 1.1], dtype=torch.float64), torch.tensor([0.5, 0.9], dtype=torch.float64)
    harmonic = space.function(lambda e, n: n.cos() * e.cos())  # of degree 1: ∇²Y = -2 Y / R²
    laplacian = harmonic.x.x + (harmonic.y * space.cos).y / space.cos
    torch.testing.assert_close(
        laplacian(east, north), -2.0 * harmonic(east, north) / space.radius**2, rtol=1e-12, atol=0.0
    )


def test_arithmetic_of_smooth_functions_follows_that_of_numbers() -> None:
    space = Space.plane()
    x, y = space.function(lambda e, n: e), space.function(lambda e, n: n)
    formula = (2.0 - x) * y / 4.0 + 1.0 / x - (-y) ** 2 + x.apply(torch.exp) - 3.0
    at = torch.tensor(1.5, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)
    expected = 0.5 * 0.5 / 4.0 + 1.0 / 1.5 - 0.25 + math.exp(1.5) - 3.0
    assert float(formula(*at)) == pytest.approx(expected, rel=1e-14)
    assert float(formula.x.y(*at)) == pytest.approx(-0.25, rel=1e-14)


def test_a_scheme_without_a_limit_has_no_error_to_measure() -> None:
    with pytest.raises(ValueError, match="declares no `limit`"):
        scheme_errors(operators["friction"], "periodic")


@pytest.mark.parametrize("name", SETTINGS)
def test_meshes_cover_the_same_space_at_every_resolution(name: str) -> None:
    def extent(mesh: Any) -> tuple[float, float]:
        grid: Grid2D = mesh.grid
        return grid.dy * grid.ny, float(mesh.north.mean())

    coarse, fine = (SETTINGS[name].mesh(n) for n in (16, 32))
    assert extent(coarse) == pytest.approx(extent(fine))
