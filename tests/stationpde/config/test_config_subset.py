from __future__ import annotations

import pytest

from stationpde.config import Config, absences, unneeded_terms
from stationpde.errors import ConfigError


def test_a_record_without_wind_is_not_scored_on_it_and_the_configuration_says_so():
    config = Config.preset("tiny").fitted_to(("u", "v"))
    assert config.data.missing == {"u": "calm", "v": "calm"} and config.data.scored == ("p", "t", "rh")
    assert config.fitted_to(("u", "v")) is config


def test_a_whole_record_leaves_the_configuration_and_its_hash_alone():
    config = Config.preset("weather2k")
    assert config.fitted_to(()) is config
    # The hash that runs were saved with before these keys were there.
    assert "extra" not in config.identity()["data"]
    assert config.with_overrides(["data.extra=['gust']"]).hash() != config.hash()


def test_a_network_that_observes_nothing_of_what_is_scored_is_refused():
    config = Config.preset("tiny").with_overrides(["data.scored=['u', 'v']"])
    with pytest.raises(ConfigError, match="none of what is scored: u, v"):
        config.fitted_to(("u", "v"))


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("{u = 'calm'}", "one component is no wind"),
        ("{t = 'standard-atmosphere'}", "humidity without temperature"),
        ("{t = 'dry', rh = 'dry'}", "'dry' is no substitute for t"),
    ],
)
def test_stand_ins_that_make_no_record_are_refused(missing, reason):
    with pytest.raises(ConfigError, match=reason):
        Config.preset("tiny").with_overrides(["data.scored=['p']", f"data.missing={missing}"])


def test_terms_that_need_the_wind_or_vapour_are_named_and_pressure_needs_none():
    names = {"advection", "coriolis", "friction", "laplacian", "condensation"}
    assert unneeded_terms(("u", "v"), names) == ("advection", "coriolis", "friction")
    assert unneeded_terms(("rh",), names) == ("condensation",)
    assert unneeded_terms(("p", "t"), names) == ()


def test_what_follows_is_said_in_sentences():
    data = Config.preset("tiny").fitted_to(("u", "v", "rh")).data
    assert absences(data) == [
        "u, v (calm): not scored, not forecast; not in the equations: advection, coriolis, friction, pressure gradient",
        "rh (dry): not scored, not forecast; not in the equations: condensation",
    ]


@pytest.mark.parametrize("extra", ["['gust', 'gust']", "['t']", "['nothing']"])
def test_extra_variables_are_named_once_and_are_none_of_the_state(extra):
    with pytest.raises(ConfigError, match=r"data\.extra|extra names"):
        Config.preset("tiny").with_overrides([f"data.extra={extra}"])
