"""What an assimilation refuses, before anything is integrated, and what it says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import pde_ops as po
from assimilation_cases import CARRIED, GRID, MINUTES, NX, NY, PLACES, normal, tracer_problem, windy
from pde_ops.assimilation import (
    AreaMeans,
    Coefficient,
    Diagonal,
    FourDVar,
    Function,
    Gaussian,
    Places,
    Points,
    Source,
    State,
)
from pde_ops.errors import UnknownNameError

SEEN = normal(3, 5, seed=3)
SIGMA = State({"c": Diagonal("1 K")})


def with_observations(*sources: Any) -> FourDVar:
    model = tracer_problem()
    return FourDVar(
        model.step, model.background, window="1 hour", controls=[SIGMA], observations=sources, closures=windy
    )


def points(what: Any = "c", places: Places = PLACES, **changes: Any) -> Points:
    options: dict[str, Any] = {"time": (MINUTES, "min"), "values": (SEEN, "K"), "error": "0.3 K", **changes}
    return Points(what, places, **{name: value for name, value in options.items() if value != "none"})


def replaced(row: int, column: int, value: float) -> tuple[torch.Tensor, str]:
    values = SEEN.clone()
    values[row, column] = value
    return values, "K"


def singular(size: int = 15) -> tuple[np.ndarray, str]:
    return np.ones((size, size)), "K**2"


OBSERVATIONS = {
    "none": (list, po.ObservationError, "no observations"),
    "outside the grid": (lambda: [points(places=Places([0, 1, 2, 3, 6.7], [0, 1, 2, 3, 3]))],
                         po.ObservationError, r"1 of 5 places lie outside the grid .* number 4 at row 6.70"),
    "before the window": (lambda: [points(time=([-5.0, 0, 10], "min"))], po.ObservationError, "outside the window"),
    "after the window": (lambda: [points(time=([5.0, 0, 61], "min"))], po.ObservationError, "1 of 3 times"),
    "a mean that begins too early": (lambda: [points(time=([5.0, 30, 60], "min"), over="10 min")],
                                     po.ObservationError, "means over 600 s"),
    "a time that is not finite": (lambda: [points(time=([5.0, math.nan, 60], "min"))], po.ObservationError, "window"),
    "NaN": (lambda: [points(values=replaced(1, 2, math.nan))], po.ObservationError, "number 7: nan.*skip"),
    "an infinite value": (lambda: [points(values=replaced(0, 1, math.inf), missing="skip")],
                          po.ObservationError, "1 of 15 values are not finite"),
    "nothing but NaN": (lambda: [points(values=(SEEN * math.nan, "K"), missing="skip")],
                        po.ObservationError, "no value in it"),
    "an error of zero": (lambda: [points(error="0 K")], po.ObservationError, "not finite and above 0"),
    "an error that is not finite": (lambda: [points(error=(SEEN * math.nan, "K"))], po.ObservationError, "15 of 15"),
    "errors of another shape": (lambda: [points(error=([1.0, 2.0], "K"))], po.ShapeError, "as many as values"),
    "a singular covariance": (lambda: [points(error="none", covariance=singular())],
                              po.ObservationError, "singular.*diagonal"),
    "a covariance of another shape": (lambda: [points(error="none", covariance=singular(4))], po.ShapeError, "15"),
    "a covariance of another unit": (lambda: [points(error="none", covariance=(np.eye(15), "K"))], po.UnitError, "K²"),
    "values of another unit": (lambda: [points(values=(SEEN, "hPa"))], po.UnitError, r"needs \[K\]"),
    "values without a unit": (lambda: [points(values=SEEN)], po.UnitError, "has no unit"),
    "an error of another unit": (lambda: [points(error="0.3 m/s")], po.UnitError, r"needs \[K\]"),
    "a time of another unit": (lambda: [points(time=(MINUTES, "K"))], po.UnitError, r"needs \[s\]"),
    "values that do not fit the places": (lambda: [points(values=(SEEN[:, :4], "K"))], po.ShapeError, "at 5 places"),
    "values that do not fit the times": (lambda: [points(values=(SEEN[:2], "K"))], po.ShapeError, r"\[3\] times"),
    "an unknown field": (lambda: [points("T")], UnknownNameError, "no field 'T'.*it has c"),
    "a function that gives no map": (lambda: [points(lambda a: a["c"].sum())], po.ShapeError, "must return a map"),
    "a function of too few": (lambda: [Function(lambda a: a["c"][0, :2], time="0 s", values=([1.0] * 3, "K"),
                                                error="1 K")], po.ShapeError, r"must return \[3\]"),
    "an empty area": (lambda: [AreaMeans("c", torch.zeros(NY, NX), time="0 s", values=([1.0], "K"), error="1 K")],
                      po.ObservationError, "area 0 holds no cell"),
    "an area of another shape": (lambda: [AreaMeans("c", torch.ones(3, 3), time="0 s", values=([1.0], "K"),
                                                    error="1 K")], po.ShapeError, "areas"),
    "two errors": (lambda: [points(covariance=singular())], po.DeclarationError, "either"),
    "no error": (lambda: [points(error="none")], po.DeclarationError, "either"),
    "an unknown word": (lambda: [points(missing="drop")], po.DeclarationError, "'refuse' or 'skip'"),
    "something else": (lambda: [3.0], po.DeclarationError, "float"),
    "places that are none": (lambda: [points(places=(1, 2))], po.DeclarationError, "must be Places"),
    "places that do not fit": (lambda: [points(places=Places([1, 2], [3]))], po.ShapeError, "as many rows"),
    "places that are not finite": (lambda: [points(places=Places([1, math.nan], [3, 3]))],
                                   po.ObservationError, "number 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", OBSERVATIONS)
def test_observations_that_cannot_be_used_are_refused(case: str) -> None:
    make, error, words = OBSERVATIONS[case]
    with pytest.raises(error, match=words):
        with_observations(*make())


CONTROLS = {
    "none": (list, po.DeclarationError, "nothing to estimate"),
    "an unknown field": (lambda: [State({"T": Diagonal("1 K")})], UnknownNameError, "no field 'T'"),
    "an unknown coefficient": (lambda: [Coefficient("nu")], UnknownNameError, "no coefficient 'nu'.*kappa"),
    "an unknown source": (lambda: [Source("Q", Diagonal("1 K/s"))], UnknownNameError, "no closure 'Q'.*U, V, S"),
    "twice": (lambda: [SIGMA, Coefficient("kappa"), SIGMA], po.DeclarationError, "state 'c' twice"),
    "an error of another unit": (lambda: [State({"c": Diagonal("1 m")})], po.UnitError, "background error of 'c'"),
    "a source in another unit": (lambda: [Source("S", Diagonal("1 K"))], po.UnitError, r"needs \[K/s\]"),
    "a singular background": (lambda: [State({"c": Diagonal("0 K")})], po.DeclarationError, "singular"),
    "a negative error": (lambda: [State({"c": Diagonal("-1 K")})], po.DeclarationError, "not below 0"),
    "an error that is not finite": (lambda: [State({"c": Diagonal((np.full((NY, NX), np.nan), "K"))})],
                                    po.DeclarationError, "finite"),
    "errors of another shape": (lambda: [State({"c": Diagonal((np.ones((2, 3)), "K"))})], po.ShapeError, r"\[6, 7\]"),
    "no length": (lambda: [State({"c": Gaussian("1 K", "0 km")})], po.DeclarationError, "`length`"),
    "a length of another unit": (lambda: [State({"c": Gaussian("1 K", "3 hours")})], po.UnitError, "`length`"),
    "no covariance": (lambda: [State({"c": "1 K"})], po.DeclarationError, "expected a covariance"),
    "no table": (lambda: [State("c")], po.DeclarationError, "by field"),
    "a factor of one": (lambda: [Coefficient("kappa", factor=1.0)], po.DeclarationError, "above 1"),
    "memory without pieces": (lambda: [Source("S", Diagonal("1 K/s"), memory="1 h")], po.DeclarationError, "every"),
    "pieces that are no multiple": (lambda: [Source("S", Diagonal("1 K/s"), every="7 min")],
                                    po.DeclarationError, "no multiple"),
    "something else": (lambda: ["c"], po.DeclarationError, "holds str"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTROLS)
def test_controls_that_cannot_be_used_are_refused(case: str) -> None:
    make, error, words = CONTROLS[case]
    with pytest.raises(error, match=words):
        tracer_problem_with(make())


def tracer_problem_with(controls: Any) -> FourDVar:
    model = tracer_problem()
    return FourDVar(
        model.step, model.background, window="1 hour", controls=controls, observations=[points()], closures=windy
    )


STATES = {
    "single precision": lambda: torch.zeros(1, 1, NY, NX),
    "two samples": lambda: torch.zeros(2, 1, NY, NX, dtype=torch.float64),
    "another grid": lambda: torch.zeros(1, 1, NX, NY, dtype=torch.float64),
    "not finite": lambda: torch.full((1, 1, NY, NX), math.nan, dtype=torch.float64),
    "no tensor": lambda: np.zeros((1, 1, NY, NX)),
}


@pytest.mark.parametrize("case", STATES)
def test_a_background_that_does_not_fit_is_refused(case: str) -> None:
    with pytest.raises(po.ShapeError, match="`state`"):
        FourDVar(tracer_problem().step, STATES[case](), window=6, controls=[SIGMA], observations=[points()])


WINDOWS = [("61 min", po.DeclarationError), (0, po.DeclarationError), ("1 km", po.UnitError), (2.5, po.UnitError)]


@pytest.mark.parametrize(("window", "error"), [*WINDOWS, (True, po.UnitError)])
def test_a_window_that_is_none_is_refused(window: Any, error: type[Exception]) -> None:
    model = tracer_problem()
    with pytest.raises(error, match="window"):
        FourDVar(model.step, model.background, window=window, controls=[SIGMA], observations=[points()])


def test_options_of_a_solution_are_checked() -> None:
    problem = tracer_problem()
    for method, options in (
        ("newton", {}), ("lbfgs", {"precision": 0.0}), ("lbfgs", {"iterations": 0}), ("lbfgs", {"memory": -1}),
        ("gauss_newton", {"inner_tolerance": 2.0}), ("gauss_newton", {"inner_iterations": 0}),
    ):  # fmt: skip
        with pytest.raises(po.DeclarationError):
            problem.solve(method, **options)
    with pytest.raises(po.DeclarationError, match="expected a step"):
        FourDVar(CARRIED.compile(GRID), problem.background, window=6, controls=[SIGMA], observations=[points()])


def test_an_uncertainty_of_something_that_is_not_estimated_is_refused() -> None:
    known = tracer_problem().solve(iterations=1).uncertainty(rank=4)
    with pytest.raises(po.DeclarationError, match="depends on what is estimated"):
        known.of(lambda inputs: inputs.coefficients)
    with pytest.raises(po.DeclarationError, match="count"):
        known.draws(0)


def test_a_coefficient_that_is_fixed_is_refused() -> None:
    fixed = po.Positive("fixed", "m**2/s", init=1.0, learnable=False)
    field = po.Field("c", "K")
    step = po.integrators["euler"](
        po.PDESystem("mixing", {field: fixed * po.ops.laplacian(field)}).compile(GRID).double(), dt=600.0
    )
    with pytest.raises(po.DeclarationError, match="learnable=False"):
        FourDVar(
            step, torch.zeros(1, 1, NY, NX, dtype=torch.float64), window=6, controls=[Coefficient("fixed")],
            observations=[points()],
        )  # fmt: skip
