"""Quantile functions at fixed levels: read, inverted and continued."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import expon, norm

from stationpde.uncertainty.levels import LEVELS, at_levels, empirical, level_of

STEPS = st.lists(st.floats(0.01, 10.0), min_size=len(LEVELS) - 1, max_size=len(LEVELS) - 1)
LEVEL = st.floats(0.001, 0.999)


@given(STEPS, st.floats(-100, 100), LEVEL)
def test_a_level_read_and_inverted_is_the_level(steps, first, level):
    values = first + np.concatenate([[0.0], np.cumsum(steps)])
    value = at_levels(values, np.array([level]))
    assert level_of(values[None], value)[0] == pytest.approx(level, abs=1e-9)


@given(STEPS, st.lists(LEVEL, min_size=2, max_size=8))
def test_quantiles_increase_with_their_level_beyond_the_outer_levels_too(steps, levels):
    values = np.concatenate([[0.0], np.cumsum(steps)])
    assert (np.diff(at_levels(values, np.sort(levels))) >= 0).all()


def test_an_exponential_tail_is_continued_exactly():
    values = expon.ppf(LEVELS)
    assert at_levels(values, np.array([0.999]))[0] == pytest.approx(expon.ppf(0.999), rel=1e-9)
    assert level_of(values[None], np.array([expon.ppf(0.999)]))[0] == pytest.approx(0.999, abs=1e-9)


def test_a_gaussian_is_read_to_a_few_hundredths_of_its_deviation():
    levels = np.array([0.02, 0.0625, 0.3, 0.5, 0.91, 0.98])
    assert at_levels(norm.ppf(LEVELS), levels) == pytest.approx(norm.ppf(levels), abs=0.05)


def test_a_value_of_many_levels_has_the_middle_of_them():
    values = np.maximum(norm.ppf(LEVELS), 0.0)
    assert level_of(values[None], np.array([0.0]))[0] == pytest.approx(0.25, abs=0.01)
    assert level_of(values[None], np.array([-1.0]))[0] < 0.01


def test_fewer_independent_values_move_quantiles_outwards():
    sample = np.random.default_rng(0).normal(size=5000)
    few, many = empirical(sample, 20.0), empirical(sample, 5000.0)
    assert (few[LEVELS > 0.5] >= many[LEVELS > 0.5]).all() and (few[LEVELS < 0.5] <= many[LEVELS < 0.5]).all()
    assert few[LEVELS == 0.5] == many[LEVELS == 0.5]
