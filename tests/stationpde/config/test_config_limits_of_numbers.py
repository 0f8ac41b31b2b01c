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
