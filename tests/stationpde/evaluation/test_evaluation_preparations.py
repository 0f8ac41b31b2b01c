"""What is fitted before training is fitted once for all cells that need the same, and for no other."""

import pytest
import torch

from small_network import places, small_config, small_series, weather
from stationpde.data.window_source import WindowSource
from stationpde.evaluation.budget import Ledger
from stationpde.evaluation.fitting import ModelFitter
from stationpde.evaluation.preparations import Preparations
from stationpde.model.task import ModelLearner


@pytest.fixture(scope="module")
def record():
    return small_series()


def made(fitter, config, series, name, fits):
    """The prepared learner of a cell and what it was charged; ``fits`` counts fits."""

    class Counting(ModelLearner):
        def prepare(self, source, report):
            fits.append(name)
            super().prepare(source, report)

    source, ledger = WindowSource.of(series, config), Ledger(fitter.folder / f"{name}.json")

    def counting(config, source):
        return Counting.of(config, source.series, source.windows.split)

    build = fitter._prepared(config, source, fitter.folder / name, counting, ledger, cap=600.0)
    return build(config, source), ledger.spent["prepare"]


def guide(learner):
    return learner.model.guide.state_dict()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_parts_of_the_field_share_one_guide_and_each_is_charged_for_it(tmp_path, record):
    fitter, config, fits = ModelFitter(tmp_path), small_config(), []
    whole, first = made(fitter, config, record, "whole", fits)
    for part in ("no_pde", "no_data", "no_station_head", "no_obs_loss", "no_diffusion", "no_closure"):
        less, charged = made(fitter, config.ablated(part), record, part, fits)
        assert same(guide(whole), guide(less)) and charged == first > 0.0
    assert fits == ["whole"]
    # Fitted for itself it is the same to the last bit: sharing changes no figure.
    alone, _ = made(ModelFitter(tmp_path / "alone"), config.ablated("no_pde"), record, "alone", fits)
    assert same(guide(whole), guide(alone)) and fits == ["whole", "alone"]


@pytest.mark.parametrize("change", ["train.seed=1", "lift.k=3", "model.guide_groups=['hour']", "data.history=4"])
def test_what_the_guide_depends_on_is_fitted_again(tmp_path, record, change):
    fitter, config, fits = ModelFitter(tmp_path), small_config(), []
    made(fitter, config, record, "whole", fits)
    made(fitter, config.with_overrides([change]), record, "other", fits)
    assert fits == ["whole", "other"]


def test_other_data_are_fitted_again(tmp_path, record):
    fitter, config, fits = ModelFitter(tmp_path), small_config(), []
    made(fitter, config, record, "whole", fits)
    made(fitter, config, weather(places(), seed=9), "other", fits)
    assert fits == ["whole", "other"]


@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_a_damaged_one_is_fitted_again(tmp_path, record, kind):
    fitter, config, fits = ModelFitter(tmp_path), small_config(), []
    whole, _ = made(fitter, config, record, "whole", fits)
    (path,) = (tmp_path / "runs" / ".prepared").glob(f"*.{kind}")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    again, _ = made(fitter, config, record, "again", fits)
    assert fits == ["whole", "again"] and same(guide(whole), guide(again))


def test_a_learner_that_does_not_say_what_it_depends_on_is_not_kept(tmp_path, record):
    source = WindowSource.of(record, small_config())
    kept = Preparations(tmp_path)
    kept.save(object(), source, 1.0)
    assert kept.restore(object(), source) is None and not list(tmp_path.iterdir())
