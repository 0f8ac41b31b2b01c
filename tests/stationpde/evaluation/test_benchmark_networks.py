"""Commands under ``benchmarks/``: networks are cut as they are told, and a term that explains errors is found."""

import numpy as np
import pytest
import torch

from benchmarks.couplings import Guesses, gains
from benchmarks.other_networks import NETWORKS, Network, nearest


@pytest.fixture
def record(tmp_path):
    """Twenty stations along a meridian over fifty days, in the layout of the shared record."""
    rng, count = np.random.default_rng(0), 20
    time = np.datetime64("2023-01-01T00", "s") + np.arange(24 * 50) * np.timedelta64(3600, "s")
    usual = np.array([1.0, -1.0, 950.0, 20.0, 70.0], np.float32)
    obs = usual + rng.normal(size=(len(time), count, 5)).astype(np.float32)
    path = tmp_path / "whole" / "observations.npz"
    path.parent.mkdir()
    np.savez(
        path, obs=obs, variables=np.array(["u", "v", "p", "t", "rh"]), time=time,
        station_id=np.array([f"S{i:02d}" for i in range(count)]),
        lat=np.linspace(-30.0, -20.0, count, dtype=np.float32),
        lon=np.full(count, -50.0, np.float32), alt_m=np.linspace(0.0, 900.0, count, dtype=np.float32),
    )  # fmt: skip
    return path


def test_a_network_is_cut_by_place_and_time(record, tmp_path):
    network = Network("", nearest(5, -20.0, -50.0), "2023-01-11", "2023-01-20T23")
    with np.load(record) as whole, np.load(network.cut(record, tmp_path / "cut" / "observations.npz")) as cut:
        assert cut["station_id"].tolist() == ["S15", "S16", "S17", "S18", "S19"]
        assert cut["time"][0] == np.datetime64("2023-01-11") and len(cut["time"]) == 240
        np.testing.assert_array_equal(cut["obs"], whole["obs"][240:480, 15:])
        np.testing.assert_array_equal(cut["alt_m"], whole["alt_m"][15:])


def test_trials_lie_within_the_training_period_of_the_record():
    trials = [network for network in NETWORKS.values() if network.is_trial]
    # Sixty per cent of 2023 and 2024.
    assert len(trials) == 6 and all(np.datetime64(trial.last) < np.datetime64("2024-03-14") for trial in trials)


def test_a_term_that_explains_the_errors_is_found_and_one_that_does_not_gains_nothing():
    draw = torch.Generator().manual_seed(0)
    made = lambda: torch.randn(200, 2, 4, 5, generator=draw)
    splits = []
    for _ in range(2):
        guess, term, noise = made(), made(), made()
        splits.append((Guesses(guess, guess + 0.5 * term + noise, torch.zeros(()), torch.zeros(200)), term))
    terms = {id(given): term for given, term in splits}
    (known, _), (asked, _) = splits
    on_blocks, better = gains(known, asked, lambda given: [terms[id(given)]])
    # A quarter of the noise's variance comes from the term: 1 - 1 / 1.25.
    assert all(abs(gain - 0.2) < 0.06 for gain in on_blocks)
    assert float((better - asked.truth).square().mean()) < 1.05
    useless, same = gains(known, asked, lambda given: [torch.roll(terms[id(given)], 1, dims=0)])
    assert max(map(abs, useless)) < 0.03
    assert float((same - asked.guess).square().mean()) < 0.01


def test_a_target_that_was_not_observed_has_no_say_in_a_coefficient():
    draw = torch.Generator().manual_seed(1)
    guess, term = torch.randn(80, 1, 3, 5, generator=draw), torch.randn(80, 1, 3, 5, generator=draw)
    truth = guess + 2.0 * term
    truth[::3] = torch.nan
    _, better = gains(*[Guesses(guess, truth, torch.zeros(()), torch.zeros(80))] * 2, lambda given: [term])
    # The coefficient is drawn to nothing by a thousandth.
    torch.testing.assert_close(better, guess + 2.0 * term, rtol=0.0, atol=0.02)
