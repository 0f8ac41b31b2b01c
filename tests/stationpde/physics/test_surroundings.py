"""What stations see around them, and the terms that extend the equations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pde_ops import Grid2D
from pde_ops.ops import gradient_scale_x, gradient_scale_y, laplacian_scale
from small_network import places, small_config, small_model, wild, windows
from stationpde.guide.predictors import GROUPS, Predictors
from stationpde.model.analysis import lift_history
from stationpde.model.extended_terms import ExtendedTerms, tendencies_of
from stationpde.model.model import StationPDEModel
from stationpde.model.pde_branch import system_of
from stationpde.model.slopes import Slopes
from stationpde.physics import SUN_CHANNEL, THETA, TIME_CHANNELS, WIND, P, Q, equations
from stationpde.physics.equations import TERMS
from stationpde.physics.surroundings import PLACES, RINGS_KM, Surroundings, View, ring_distances, steps_back


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
    assert not view.change_3h.any() and not view.change_12h.any()


def test_changes_of_the_surroundings_are_those_of_their_differences(model):
    grid = model.region.grid
    sees = Surroundings(grid, model.region.altitude, places(), 21600, 5)
    fields = torch.randn(1, 5, 5, *grid.shape)
    view, before = sees(fields, model.sites.read(fields)), sees(fields[:, :4], model.sites.read(fields[:, :4]))
    assert sees.back == (1, 2)
    torch.testing.assert_close(view.change_3h, view.around - before.around)


def test_spans_are_whole_steps_within_the_history():
    assert [steps_back(hours, 10800, 16) for hours in (1, 3, 12, 24, 96)] == [1, 1, 4, 8, 15]
    assert steps_back(3, 3600, 48) == 3


def test_distances_follow_spacing_extent_and_step():
    # 103 stations 147 km apart on 1,490 km see about what the fixed distances show.
    assert np.allclose(ring_distances(147.0, 1490.0, 10800, 8), RINGS_KM, rtol=0.08)
    # Sparse stations over a continent look farther, small and dense networks nearer.
    assert ring_distances(469.0, 3630.0, 10800, 8) == pytest.approx((469.0, 695.7, 1032.0), rel=1e-3)
    assert ring_distances(25.0, 60.0, 3600, 24) == pytest.approx((15.0, 21.2, 30.0), rel=1e-2)
    hourly, three_hourly = ring_distances(60.0, 3000.0, 3600, 24), ring_distances(60.0, 3000.0, 10800, 8)
    assert hourly[0] < three_hourly[0] and hourly[2] == three_hourly[2]


@given(spacing=st.floats(5.0, 2000.0), extent=st.floats(40.0, 2e4), step=st.sampled_from((3600, 10800)))
def test_distances_grow_within_half_the_region(spacing, extent, step):
    near, middle, far = ring_distances(spacing, extent, step, 8)
    assert 0.0 < near < middle < far <= 0.5 * extent
    assert near * far == pytest.approx(middle**2)


def test_distances_are_saved_with_the_weights():
    fixed, model = small_model(), small_model(small_config(overrides=("model.surroundings=network",)))
    assert "kept.rings_km" not in fixed.state_dict() and fixed.region.rings_km == RINGS_KM
    tensors = model.state_dict()
    tensors["kept.rings_km"] = torch.tensor([100.0, 200.0, 400.0], dtype=torch.float64)  # of another version
    again = StationPDEModel.from_tensors(model.config, model.statistics.stations.id, tensors)
    assert model.region.rings_km != RINGS_KM and again.region.rings_km == (100.0, 200.0, 400.0)


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

    elsewhere = replace(view, around=draw(1, 3, 12, 5), change_3h=draw(1, 3, 12, 5), change_12h=draw(1, 3, 12, 5))
    assert moved(departures=draw(1, 16, 3, 5)) == ["station" in names for names in origins]
    assert moved(view=elsewhere) == ["surroundings" in names for names in origins]
    assert moved(view=replace(elsewhere, centre=draw(1, 16, 3, 5))) == ["field" in names for names in origins]
    assert moved(time=time + 4000) == ["hour" in names for names in origins]
    assert moved(place=draw(3, 3)) == ["place" in names for names in origins]
    later = replace(view, centre=torch.cat([draw(1, 15, 3, 5), view.centre[:, -1:]], 1),
                    change_3h=elsewhere.change_3h, change_12h=elsewhere.change_12h)  # fmt: skip
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


def plain_terms(terms, grid, state, conditions, tendencies, lead):
    """Compute the terms as they are written, each on its own: gains of the scaled state, rates of decay."""
    length = lambda radius: radius * grid.dy
    dryness = (state[:, THETA] - state[:, Q])[:, None]
    differences = []
    for radius in terms.radii:
        differences += [
            gradient_scale_x(state, grid=grid, radius=radius) * length(radius),
            gradient_scale_y(state, grid=grid, radius=radius) * length(radius),
            laplacian_scale(state, grid=grid, radius=radius) * length(radius) ** 2,
        ]
    inputs = {"surroundings": torch.cat(differences, dim=1)}
    if "memory" in terms.terms:
        days = (lead - 1) * terms.step_seconds / 86400.0
        inputs["memory"] = tendencies * torch.exp(-days / terms.fading.abs().clamp(min=0.02))[:, None, None]
    middle, pressure = terms.radii[len(terms.radii) // 2], state[:, P, None]
    slopes = [op(pressure, grid=grid, radius=middle) * length(middle) for op in (gradient_scale_x, gradient_scale_y)]
    one, warmth, time = torch.ones_like(dryness), state[:, THETA, None], conditions[:, TIME_CHANNELS]
    inputs["relaxation"] = torch.cat([one, state[:, WIND], *slopes, dryness, time], dim=1).clamp(-4.0, 4.0)
    sun = conditions[:, SUN_CHANNEL, None]
    speed = (state[:, WIND].square().sum(dim=1, keepdim=True) + 1e-6).sqrt()
    by_day = sun.clamp(min=0.0) * torch.cat([one, dryness, warmth, state[:, Q, None]], dim=1)
    by_night = (sun < 0.0).to(sun.dtype) * torch.cat([one, speed, dryness, warmth], dim=1)
    inputs["radiation"] = torch.cat([by_day, by_night], dim=1)
    return {name: torch.einsum("of,bfyx->boyx", terms.coefficients[name], inputs[name]) for name in terms.terms}


def drawn_terms(grid, names, without=()):
    torch.manual_seed(3)
    terms = ExtendedTerms(names, grid, 21600, without).double()
    with torch.no_grad():
        for parameter in terms.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return terms


@pytest.mark.parametrize("names", [tuple(TERMS), ("surroundings",), ("memory", "relaxation"), ("radiation",)])
@pytest.mark.parametrize("lead", [1, 4])
def test_terms_are_what_they_are_written_as_with_their_gradients(model, names, lead):
    grid = model.region.pde_grid
    terms = drawn_terms(grid, names)
    conditions = model.conditions.step(torch.tensor([1_672_531_200, 1_672_563_600]), lead).double()
    state = (2.0 * torch.randn(2, 5, *model.region.grid.shape, dtype=torch.float64)).requires_grad_()
    past = torch.randn(2, 15, *model.region.grid.shape, dtype=torch.float64).requires_grad_()
    gain, decay = terms(state, conditions, past, lead)
    plain = plain_terms(terms, grid, state, conditions, past, lead)
    gains = [values for name, values in plain.items() if name != "relaxation"]
    expected = (sum(gains) if gains else None, plain.get("relaxation"))
    assert (gain is None) == (not gains) and (decay is None) == ("relaxation" not in names)
    pairs = [(a, b) for a, b in zip((gain, decay), expected, strict=True) if a is not None]
    sources = [state, past, *terms.parameters()]
    slopes = []
    for side in zip(*pairs, strict=True):
        total = sum((values * torch.linspace(-1.0, 2.0, values.numel()).view_as(values)).sum() for values in side)
        slopes.append(torch.autograd.grad(total, sources, allow_unused=True, materialize_grads=True))
    for a, b in [*pairs, *zip(*slopes, strict=True)]:
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=15)
@given(
    rows=st.integers(3, 9), columns=st.integers(3, 9), border=st.sampled_from(["zero_gradient", "periodic"]),
    data=st.data(),
)  # fmt: skip
def test_slopes_are_those_of_the_operators_on_any_grid(rows, columns, border, data):
    lat, lon = np.linspace(30.0, 30.0 + rows, rows), np.linspace(0.0, 1.3 * columns, columns)
    grid = Grid2D.from_latlon(lat, lon, boundary=border)
    radii = sorted(data.draw(st.sets(st.integers(1, min(rows, columns) - 1), min_size=1, max_size=3)))
    slopes, fields = Slopes(grid, radii).double(), torch.randn(2, 4, rows, columns, dtype=torch.float64)
    weights = torch.randn(3, 3 * 4 * len(radii), dtype=torch.float64)
    length = {radius: radius * grid.dy for radius in radii}
    ops = ((gradient_scale_x, 1), (gradient_scale_y, 1), (laplacian_scale, 2))
    differences = [op(fields, grid=grid, radius=r) * length[r] ** power for r in radii for op, power in ops]
    expected = torch.einsum("of,bfyx->boyx", weights, torch.cat(differences, dim=1))
    torch.testing.assert_close(slopes.weighted(fields, weights), expected, rtol=1e-9, atol=1e-11)
    for k, radius in enumerate(radii):
        gradient = torch.stack([differences[3 * k][:, 0], differences[3 * k + 1][:, 0]], dim=1)
        torch.testing.assert_close(slopes.gradient(fields[:, 0], radius), gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "overrides", [(), ("model.closure=false",), ('pde.without=["S_u", "S_v"]',), ('pde.without=["G_p", "lambda_q"]',)]
)
def test_what_is_added_beside_the_equations_is_what_they_say(overrides):
    """Driven terms have an update factor of their own and are added outside the compiled program."""
    config = small_config("extended", (*overrides, "pde.max_wind=8"))
    split = small_model(config).double()
    wild(split, 0.02)
    branch, grid, scaling = split.pde_branch, split.region.pde_grid, split.scaling
    inside = system_of(config, grid).compile(grid, backend="torch", limits=branch.tendency.limits).double()
    inside.coefficients.load_state_dict(branch.tendency.coefficients.state_dict())
    drawn = torch.Generator().manual_seed(2)
    shape = (2, 5, *split.region.grid.shape)
    size = torch.tensor([3.0, 3.0, 300.0, 4.0, 1e-3])[:, None, None]
    state = torch.randn(shape, generator=drawn).double() * size
    base = torch.tensor([2.0, -1.0, 9.5e4, 285.0, 6e-3])[:, None, None].expand(shape).double()
    past = torch.randn(2, 15, *shape[2:], generator=drawn).double()
    conditions = split.conditions.step(torch.tensor([1_672_531_200, 1_672_563_600]), 2).double()
    assert ("G_p" in branch.driven) == ("G_p" not in "".join(overrides))
    closures = {name: base[:, equations.STATE.index(name[:-2])] for name in branch.bases}
    with torch.no_grad():
        forcing = branch.forcing(state, base, conditions, scaling, past, 2)
        network = branch.closure
        source = {} if network is None else network.by_name(network(scaling(state), conditions))
        seconds = branch.substeps * branch.dt
        for term, values in plain_terms(branch.extended, grid, scaling(state), conditions, past, 2).items():
            values = values / seconds * (1.0 if term == "relaxation" else scaling.scale)
            source |= {equations.term_of(term, name): values[:, c] for c, name in enumerate(equations.STATE)}
        source = {name: source[name] for name in branch.driven}
        difference = inside(state, {**closures, **source}) - branch.tendency(state, closures)
    first = branch.channels[0]
    beside = forcing.gain - forcing.decay * state[:, first:]
    # Differences of tendencies of 1e-2 Pa/s and more, in double precision.
    torch.testing.assert_close(difference[:, first:], beside, rtol=1e-9, atol=1e-15)
    assert not difference[:, :first].any()
    again = branch.forcing_from(forcing.tensors())
    assert torch.equal(again.gain, forcing.gain) and torch.equal(again.decay, forcing.decay)


@pytest.mark.parametrize("name", TERMS)
def test_every_term_moves_the_field_and_can_be_left_out(model, name):
    terms = ExtendedTerms((name,), model.region.pde_grid, 21600)
    conditions = model.conditions.step(torch.tensor([1_672_531_200]), 1)
    state, past = torch.randn(1, 5, *model.region.grid.shape), torch.randn(1, 15, *model.region.grid.shape)
    which = int(name == "relaxation")
    assert not terms(state, conditions, past, 1)[which].any()
    with torch.no_grad():
        terms.coefficients[name].fill_(0.1)
    assert terms(state, conditions, past, 1)[which].any() and terms(state, conditions, past, 1)[1 - which] is None
    assert list(terms.coefficients) == [name]


def test_remembered_tendencies_fade(model):
    terms = ExtendedTerms(("memory",), model.region.pde_grid, 21600)
    with torch.no_grad():
        terms.coefficients["memory"].fill_(0.1)
    conditions = model.conditions.step(torch.tensor([1_672_531_200]), 1)
    state = torch.zeros(1, 5, *model.region.grid.shape)
    past = torch.ones(1, 15, *model.region.grid.shape)
    sizes = [float(terms(state, conditions, past, lead)[0].detach().abs().mean()) for lead in (1, 2, 4)]
    assert sizes[0] > sizes[1] > sizes[2] > 0.0


def test_tendencies_are_what_the_field_gained():
    fields = torch.randn(2, 5, 5, 3, 4)
    tendencies = tendencies_of(fields, 21600)
    torch.testing.assert_close(tendencies[:, :5], fields[:, 4] - fields[:, 3])
    torch.testing.assert_close(tendencies[:, 10:], fields[:, 4] - fields[:, 0])
