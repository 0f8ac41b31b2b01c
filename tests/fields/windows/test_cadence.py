"""Rows at a cadence: selected by their phase, with a phase of the record's own where it lacks that one."""

import numpy as np
import pytest

from fields.windows import rows_at_cadence

HOUR = 3600


@pytest.mark.parametrize(
    ("phase", "otherwise", "rows"),
    [
        (0, "first", [2, 5]),  # 3 h and 6 h
        (HOUR, "last", [0, 3, 6]),
        (1800, "first", [0, 3, 6]),  # no time has it: that of 1 h
        (1800, "last", [0, 3, 6]),  # and of 7 h, the same
    ],
)
def test_times_of_one_phase_are_selected(phase, otherwise, rows):
    seconds = HOUR * np.arange(1, 8)
    assert rows_at_cadence(seconds, 3 * HOUR, phase, otherwise=otherwise).tolist() == rows


def test_the_first_or_the_last_time_gives_the_phase_that_is_missing():
    seconds = HOUR * np.array([1, 4, 5, 8])
    assert rows_at_cadence(seconds, 3 * HOUR, otherwise="first").tolist() == [0, 1]
    assert rows_at_cadence(seconds, 3 * HOUR, otherwise="last").tolist() == [2, 3]
    assert rows_at_cadence(seconds[:0], 3 * HOUR, otherwise="last").size == 0
