"""What is said of the time to go."""

import pytest

from stationpde.training import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_first_step_builds_kernels_and_does_not_count_for_the_time_to_go(clock):
    seen = []
    report = progress.StepReporter(seen.append, 100)
    for seconds in (40.0, 1.0, 1.0):
        clock[0] += seconds
        report(len(seen) + 1, 0, {})
    assert [event.eta for event in seen] == [None, 98.0, 97.0]


def test_steps_before_a_resume_do_not_count_either(clock):
    seen = []
    report = progress.StepReporter(seen.append, 100)
    for step in (51, 52):
        clock[0] += 2.0
        report(step, 0, {})
    assert seen[-1].eta == pytest.approx(96.0)
