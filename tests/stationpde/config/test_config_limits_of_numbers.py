"""Numbers that are none, and lists without an element, are refused where the configuration is read."""

import pytest

from stationpde.config.tree import Config
from stationpde.errors import ConfigError


@pytest.mark.parametrize(
    "setting",
    ["train.lr=inf", "train.lr=nan", "pde.max_wind=inf", "loss.observed=inf", "grid.least_spacing=inf",
     "model.dilations=[]"],
)  # fmt: skip
def test_it_is_refused_with_its_key(setting):
    with pytest.raises(ConfigError, match=setting.partition("=")[0]):
        Config.preset("tiny").with_overrides([setting])


def test_a_file_that_a_windows_editor_saved_is_read(tmp_path):
    from stationpde.config.layers import read_toml

    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbf[train]\r\nlr = 0.1\r\n")
    assert read_toml(tmp_path / "mine.toml") == {"train": {"lr": 0.1}}


@pytest.mark.parametrize("pairs", [[5], [None], 5, None, ["train.epochs"]])
def test_an_override_that_is_no_text_is_refused(pairs):
    with pytest.raises(ConfigError) as refused:
        Config.preset("demo").with_overrides(pairs)
    assert refused.value.code == "SPDE-C002"


def test_a_single_override_is_no_list_of_letters():
    assert Config.preset("demo").with_overrides("train.epochs=3").train.epochs == 3


@pytest.mark.parametrize("weight", ["5", "five", "5 km/s", "5 kg/m", "-1 m/m"])
def test_a_weight_of_altitude_without_a_length_over_a_length_is_refused_with_its_key(weight):
    with pytest.raises(ConfigError, match=r"lift\.w_alt: w_alt needs a number"):
        Config.preset("demo").with_overrides([f'lift.w_alt="{weight}"'])
