"""What stations see around them, and the terms that extend the equations."""

from dataclasses import replace

import pytest
import torch

from small_network import places, small_config, small_model, windows
from stationpde.guide.predictors import GROUPS, Predictors
from stationpde.model.analysis import lift_history
from stationpde.model.extended_terms import ExtendedTerms, tendencies_of
from stationpde.model.pde_branch import system_of
from stationpde.physics import equations
from stationpde.physics.equations import TERMS
from stationpde.physics.surroundings import PLACES, Surroundings, View, steps_back


@pytest.fixture(scope="module")
def model():
    return small_model()


def test_a_ramp_is_seen_higher_in_the_east_and_level_in_the_north(model):
    grid, stations = model.region.grid, places()
    sees = Surroundings(grid, model.region.altitude, stations, 21600, 5)
    ramp = torch.linspace(0.0, 1.0, grid.width).expand(1, 5, 5, *grid.shape)
    view = sees(ramp, model.sites.read(ramp))
    middle = [i for i in range(12) if 3.0 < stations.lon[i] < 10.0]
    east, west, north = (view.around[0, middle, place] for place in range(3))
    # Away from the border the ramp falls to the west as it rises to the east; a metre east is the same one row on.
    assert (east > 0.05).all() and torch.allclose(east, -west, atol=1e-5)
    assert torch.allclose(north, torch.zeros_like(north), atol=1e-5)
    assert view.around.shape == (1, 12, PLACES, 5)
    assert not view.change.any() and not view.drift.any()


def test_changes_of_the_surroundings_are_those_of_their_differences(model):
    grid = model.region.grid
    sees = Surroundings(grid, model.region.altitude, places(), 21600, 5)
    fields = torch.randn(1, 5, 5, *grid.shape)
    view, before = sees(fields, model.sites.read(fields)), sees(fields[:, :4], model.sites.read(fields[:, :4]))
    assert sees.back == (1, 2)
    torch.testing.assert_close(view.change, view.around - before.around)


def test_spans_are_whole_steps_within_the_history():
    assert [steps_back(hours, 10800, 16) for hours in (1, 3, 12, 24, 96)] == [1, 1, 4, 8, 15]
    assert steps_back(3, 3600, 48) == 3


def test_each_group_of_products_adds_predictors(model):
    batch = windows(model.config, [2])
    lifted = lift_history(batch.history, batch.issue_time, model.sites, model.base, model.scaling, model.config)
    view = model.sites.surroundings(lifted.fields, model.sites.read(lifted.fields))
    departures, place = torch.nan_to_num(lifted.departures / model.sites.scale), model.sites.features.position
    counts = []
    for number in range(len(GROUPS) + 1):
        predictors = Predictors(21600, 5, GROUPS[:number])
        pooled = predictors.pooled(departures, view, batch.issue_time, place)
        assert torch.isfinite(pooled).all()
        assert predictors.counts(5, 5)[0] == pooled.shape[-1]
        counts.append(pooled.shape[-1])
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("groups", [(), GROUPS, ("cloud",), ("hour", "place")])
def test_predictors_are_made_of_what_they_say(groups):
    drawn = torch.Generator().manual_seed(4)
    draw = lambda *shape: torch.randn(*shape, generator=drawn)
    makes = Predictors(10800, 16, groups)
    departures, time, place = draw(1, 16, 3, 5), torch.tensor([1_672_563_600]), draw(3, 3)
    view = View(draw(1, 16, 3, 5), draw(1, 3, 12, 5), draw(1, 3, 12, 5), draw(1, 3, 12, 5))
    before, origins = makes.pooled(departures, view, time, place), makes.origins(5)
    assert before.shape[-1] == len(origins)

    def moved(departures=departures, view=view, time=time, place=place):
        return (makes.pooled(departures, view, time, place) != before).any(dim=1)[0].tolist()

    elsewhere = replace(view, around=draw(1, 3, 12, 5), change=draw(1, 3, 12, 5), drift=draw(1, 3, 12, 5))
    assert moved(departures=draw(1, 16, 3, 5)) == ["station" in names for names in origins]
    assert moved(view=elsewhere) == ["surroundings" in names for names in origins]
    assert moved(view=replace(elsewhere, centre=draw(1, 16, 3, 5))) == ["field" in names for names in origins]
    assert moved(time=time + 4000) == ["hour" in names for names in origins]
    assert moved(place=draw(3, 3)) == ["place" in names for names in origins]
    later = replace(view, centre=torch.cat([draw(1, 15, 3, 5), view.centre[:, -1:]], 1),
                    change=elsewhere.change, drift=elsewhere.drift)  # fmt: skip
    assert moved(view=later) == ["tendency" in names for names in origins]


def test_extended_terms_start_as_nothing():
    config = small_config()
    whole, printed = small_model(small_config("extended")), small_model(config)
    # The factor of the closure is drawn from no generator: the models share all other weights.
    batch = windows(config, [1, 7])
    with torch.no_grad():
        one, other = (m(batch.history, batch.issue_time).state for m in (whole, printed))
    torch.testing.assert_close(one, other)


def test_the_extended_equations_are_the_others_and_four_terms_each_of_which_can_be_taken_out():
    plain = equations.anomaly()
    whole = equations.extended(plain)
    right = {field.name: value.text() for field, value in whole.equations.items()}
    assert right["theta"].endswith("+ S_theta + G_theta + M_theta - lambda_theta theta + Q_theta")
    for term in TERMS:
        names = [equations.term_of(term, name) for name in equations.STATE]
        less = whole.without(*names)
        assert {c.name for c in whole.closures} - {c.name for c in less.closures} == set(names)
        alone = equations.extended(plain, [term])
        assert {c.name for c in alone.closures} - {c.name for c in plain.closures} == set(names)
    assert repr(equations.extended(plain, [])).splitlines()[1:] == repr(plain).splitlines()[1:]


@pytest.mark.parametrize(
    "overrides", [(), ("model.closure=false",), ('pde.without=["S_u", "S_v"]',), ('pde.without=["G_p"]',)]
)
def test_what_is_added_beside_the_equations_is_what_they_say(overrides):
    """Driven terms have an update factor of their own and are added outside the compiled program."""
    config = small_config("extended", (*overrides, "pde.max_wind=8"))
    split = small_model(config).double()
    branch, grid = split.pde_branch, split.region.pde_grid
    inside = system_of(config, grid).compile(grid, backend="torch", limits=branch.tendency.limits).double()
    drawn = torch.Generator().manual_seed(2)
    shape = (2, 5, *split.region.grid.shape)
    size = torch.tensor([3.0, 3.0, 300.0, 4.0, 1e-3])[:, None, None]
    state = torch.randn(shape, generator=drawn).double() * size
    base = torch.tensor([2.0, -1.0, 9.5e4, 285.0, 6e-3])[:, None, None].expand(shape).double()
    source = {name: torch.randn(2, *shape[2:], generator=drawn).double() * 1e-5 for name in branch.driven}
    assert ("G_p" in branch.driven) == ("G_p" not in "".join(overrides))
    closures = {name: base[:, equations.STATE.index(name[:-2])] for name in branch.bases}
    with torch.no_grad():
        difference = inside(state, {**closures, **source}) - branch.tendency(state, closures)
        beside = branch.driven_tendency(state, source)
    first = branch.channels[0]
    # Differences of tendencies of 1e-2 Pa/s and more, in double precision.
    torch.testing.assert_close(difference[:, first:], beside, rtol=1e-9, atol=1e-15)
    assert not difference[:, :first].any()


@pytest.mark.parametrize("name", TERMS)
def test_every_term_moves_the_field_and_can_be_left_out(model, name):
    terms = ExtendedTerms((name,), model.region.pde_grid, 21600)
    conditions = model.conditions.step(torch.tensor([1_672_531_200]), 1)
    state, past = torch.randn(1, 5, *model.region.grid.shape), torch.randn(1, 15, *model.region.grid.shape)
    assert not terms(state, conditions, past, 1)[name].any()
    with torch.no_grad():
        terms.coefficients[name].fill_(0.1)
    assert terms(state, conditions, past, 1)[name].any()
    assert list(terms.coefficients) == [name]


def test_remembered_tendencies_fade(model):
    terms = ExtendedTerms(("memory",), model.region.pde_grid, 21600)
    with torch.no_grad():
        terms.coefficients["memory"].fill_(0.1)
    conditions = model.conditions.step(torch.tensor([1_672_531_200]), 1)
    state = torch.zeros(1, 5, *model.region.grid.shape)
    past = torch.ones(1, 15, *model.region.grid.shape)
    sizes = [float(terms(state, conditions, past, lead)["memory"].detach().abs().mean()) for lead in (1, 2, 4)]
    assert sizes[0] > sizes[1] > sizes[2] > 0.0


def test_tendencies_are_what_the_field_gained():
    fields = torch.randn(2, 5, 5, 3, 4)
    tendencies = tendencies_of(fields, 21600)
    torch.testing.assert_close(tendencies[:, :5], fields[:, 4] - fields[:, 3])
    torch.testing.assert_close(tendencies[:, 10:], fields[:, 4] - fields[:, 0])
