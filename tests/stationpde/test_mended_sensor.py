"""A vane that was stuck in training and moves again: no forecast may run away with what it never saw."""

from dataclasses import replace

import numpy as np
import pytest
from small_network import small_series
from test_evaluation_benchmark import plan_of

from fields.windows import Split
from stationpde.evaluation.benchmark import run_benchmark


def with_a_stuck_vane(still=1e-6):
    """The first station's u does not move until a third into validation."""
    series = small_series()
    values = series.values.copy()
    split = Split.of(len(values))
    mended = split.val + (split.test - split.val) // 3
    values[:mended, 0, 0] = np.where(np.isfinite(values[:mended, 0, 0]), still * values[:mended, 0, 0], np.nan)
    return replace(series, values=values, fingerprint="")


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    found = []
    for name, series in (("usual", small_series()), ("mended", with_a_stuck_vane())):
        plan = plan_of(tmp_path_factory.mktemp(name), "ridge", "ridge_nb", "mlp_nb", "default", "climatology")
        found.append(run_benchmark(plan, series)[0].to_dict())
    return found


@pytest.mark.parametrize("model", ["ridge", "ridge_nb", "mlp_nb", "default"])
def test_no_variable_is_carried_away(errors, model):
    usual, mended = (found["pooled"][model] for found in errors)
    limit = errors[1]["pooled"]["climatology"]
    for variable in ("v", "p", "t", "rh"):
        assert mended[variable]["mse"] < max(1.5 * usual[variable]["mse"], limit[variable]["mse"]), variable
    # One station of twelve is forecast as if it stood still: that, and no more.
    assert mended["u"]["mse"] < usual["u"]["mse"] + 1.5 * limit["u"]["mse"]


def test_the_normalised_error_stays_a_number_to_read(errors):
    usual, mended = (found["horizons"]["24"]["nmse"] for found in errors)
    for model in usual:
        assert mended[model] < 3.0 * usual[model] + 3.0
