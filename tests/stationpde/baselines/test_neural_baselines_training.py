"""Neural baselines in the training loop: stopped and resumed, they end with the bits of a run that was left alone."""

import pytest

from neural_baseline_cases import OWN, PACKAGED, config, network, packaged
from stationpde.baselines import baseline
from stationpde.runs.checkpoint import load_weights
from stationpde.training.session import train

SHORT = ("train.batch=4", "train.epochs=2", "train.max_steps=12", "train.checkpoint_every=5", "train.lr=3e-4",
         "train.validate_windows=4", "train.patience=9", "train.average=0.9")  # fmt: skip
REST = [name for name in OWN if name != "cdpnet"]


class PowerCut(Exception):
    """Nothing in the loop expects it."""


def cut_after(steps, build):
    """The same learner, until the power goes."""

    def made(settings, source):
        learner = build(settings, source)
        whole, calls = learner.losses, []

        def losses(batch, reducer):
            calls.append(1)
            if len(calls) > steps:
                raise PowerCut
            return whole(batch, reducer)

        learner.losses = losses
        return learner

    return made


@pytest.mark.parametrize(
    "name", ["cdpnet", *(pytest.param(n, marks=pytest.mark.slow) for n in REST), *packaged(*PACKAGED, slow=True)]
)
def test_a_resumed_run_ends_bit_for_bit_as_one_that_was_left_alone(name, tmp_path):
    settings, build = config("16 to 8", *SHORT), baseline(name).make
    whole = train(settings, network(), tmp_path / "whole", build=build)
    with pytest.raises(PowerCut):
        train(settings, network(), tmp_path / "cut", build=cut_after(7, build))
    resumed = train(settings, network(), tmp_path / "cut", build=build)
    assert resumed.weights_sha256 == whole.weights_sha256 and resumed.score == whole.score
    assert whole.steps == 12 and whole.skipped == 0
    # A checkpoint is a whole model: scales and climatology are in it.
    assert {"inputs.mean", "inputs.std", "inputs.climatology.table"} <= load_weights(whole.best).keys()
