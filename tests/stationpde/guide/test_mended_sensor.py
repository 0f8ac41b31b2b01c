"""A vane that was stuck in training and moves again: forecasts must stay bounded."""

from dataclasses import replace

import numpy as np
import pytest

from fields.windows.windows import Split
from small_benchmark import plan_of
from small_network import small_series
from stationpde.evaluation.benchmark import run_benchmark


def with_a_stuck_vane(still=1e-6):
    """Keep the first station's u constant until a third into validation."""
    series = small_series()
    values = series.values.copy()
    split = Split.of(len(values))
    mended = split.val + (split.test - split.val) // 3
    values[:mended, 0, 0] = np.where(np.isfinite(values[:mended, 0, 0]), still * values[:mended, 0, 0], np.nan)
    return replace(series, values=values, fingerprint="")


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    results = []
    for name, series in (("intact", small_series()), ("mended", with_a_stuck_vane())):
        plan = plan_of(tmp_path_factory.mktemp(name), "ridge", "ridge_nb", "mlp_nb", "default", "climatology")
        results.append(run_benchmark(plan, series)[0].to_dict())
    return results


@pytest.mark.parametrize("model", ["ridge", "ridge_nb", "mlp_nb", "default"])
def test_no_variable_is_carried_away(errors, model):
    intact, mended = (result["pooled"][model] for result in errors)
    limit = errors[1]["pooled"]["climatology"]
    for variable in ("v", "p", "t", "rh"):
        assert mended[variable]["mse"] < max(1.5 * intact[variable]["mse"], limit[variable]["mse"]), variable
    # One station of twelve is forecast as if its wind were constant: that, and no more.
    assert mended["u"]["mse"] < intact["u"]["mse"] + 1.5 * limit["u"]["mse"]


def test_the_normalised_error_stays_a_number_to_read(errors):
    intact, mended = (result["horizons"]["24"]["nmse"] for result in errors)
    for model in intact:
        assert mended[model] < 3.0 * intact[model] + 3.0
