"""The proof of quality control: errors seeded into real observations, and the share that is found."""

import numpy as np
import pytest
import xarray as xr

from fields.qc.planted_errors import quality_report, seed_errors
from fields.variables import from_display


@pytest.fixture(scope="module")
def inmet(shared_data):
    """Read two years of 103 Brazilian stations, as observed."""
    z = np.load(shared_data / "inmet_south" / "observations.npz")
    names = [str(n) for n in z["variables"]]
    values = {n: from_display(n, z["obs"][..., i]).astype(np.float32) for i, n in enumerate(names)}
    return xr.Dataset(
        {n: (("time", "station"), x) for n, x in values.items()},
        coords={
            "time": z["time"].astype("datetime64[ns]"), "station": z["station_id"].astype(str),
            "lat": ("station", z["lat"].astype(float)), "lon": ("station", z["lon"].astype(float)),
            "alt": ("station", z["alt_m"].astype(float)),
        },
        attrs={"source": "inmet_south", "step_seconds": 3600},
    )  # fmt: skip


def test_seeded_errors_are_found_in_half_a_year_of_real_data(inmet):
    # Every second station for a quarter of the time: neighbours are farther and fewer errors are seeded, so that
    # the subtle ones are held to less than over the whole record (below).
    part = inmet.isel(time=slice(0, 4380), station=slice(0, None, 2))
    score = quality_report(part, seed=0)
    assert score.rate(grade="gross") >= 0.95 and score.kind_mean("gross") >= 0.95
    assert score.rate(grade="subtle") >= 0.75
    assert score.alarm_rate() <= 0.01, score.lines()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_table_of_two_years_holds_its_figures(inmet, seed):
    score = quality_report(inmet, seed=seed)
    print("\n".join(score.lines()))
    assert min(score.rate(grade="gross"), score.kind_mean("gross")) >= 0.95
    assert min(score.rate(grade="subtle"), score.kind_mean("subtle")) >= 0.80
    assert score.alarm_rate() <= 0.01


def test_seeding_changes_what_it_says_and_nothing_else(month):
    seeds = seed_errors(month, seed=3)
    for name, truth in seeds.truth.items():
        changed = seeds.ds[name].values != month[name].values
        assert not changed[truth == 0].any()
        assert changed[truth > 0].mean() > 0.99  # an exchanged pair may agree by chance
    assert {kind for kind, _ in seeds.labels} >= {"spike", "stuck", "unit", "swap", "drift"}


def test_the_score_is_the_same_every_time_and_is_given_to_machines(month):
    first, again = quality_report(month, seed=1), quality_report(month, seed=1)
    assert first == again
    table = first.to_dict()
    assert set(table) == {"errors", "gross", "subtle", "untouched"}
    assert all(row["flagged"] <= row["seeded"] for row in table["errors"])
