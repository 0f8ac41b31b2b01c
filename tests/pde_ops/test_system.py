"""Systems: unit check of d/dt, editing, lowering, and what a compiled one accepts."""

import pytest
import torch

import pde_ops as po
from pde_ops.errors import DeclarationError, ShapeError, UnitError, UnknownNameError
from pde_ops.lowering import lower, schedule
from pde_ops.ops import advection, coriolis, friction, laplacian
from pde_ops.testing.fake_cuda import fake_cuda

u, v, T = po.Field("u", "m/s"), po.Field("v", "m/s"), po.Field("T", "K")
f, S = po.Static("f", "1/s"), po.Closure("S", "K/s")
r = po.Positive("r", "1/day", init=1.7)


def kappa(a):
    return po.Positive(f"kappa_{a.name}", "km**2/hour", init=36.0)


def transport(a):
    return -advection(a, u, v) + kappa(a) * laplacian(a)


def make_system():
    return po.PDESystem(
        "example",
        {
            u: transport(u) + coriolis(v, f) - friction(u, r),
            v: transport(v) - coriolis(u, f) - friction(v, r),
            T: transport(T) + S,
        },
    )


GRID = po.Grid2D.from_latlon([40.0 + 0.5 * i for i in range(9)], [10.0 + 0.5 * i for i in range(11)])


def make_inputs(batch=2, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(batch, 3, 9, 11, generator=generator, dtype=dtype)
    return state, {"S": torch.randn(batch, 9, 11, generator=generator, dtype=dtype)}


def test_the_rate_of_change_must_have_the_unit_of_the_field_per_second():
    with pytest.raises(UnitError, match=r"dT/dt needs \[K/s\] but the right-hand side has \[K/m²\]: ∇²T"):
        po.PDESystem("wrong", {T: laplacian(T)})


def test_roles_are_collected_in_order_of_appearance():
    system = make_system()
    assert [s.name for s in system.fields] == ["u", "v", "T"]
    assert [s.name for s in system.coefficients] == ["kappa_u", "r", "kappa_v", "kappa_T"]
    assert [s.name for s in system.closures] == ["S"]
    assert [s.name for s in system.statics] == ["f"]


def test_without_drops_terms_by_operator_family_closure_or_coefficient():
    system = make_system()
    assert "∇²" not in repr(system.without("laplacian"))
    assert system.without("S").closures == ()
    assert [s.name for s in system.without("r").coefficients] == ["kappa_u", "kappa_v", "kappa_T"]
    assert system.without("advection", "laplacian", "S").equations[T].value == 0.0
    with pytest.raises(UnknownNameError, match="it has: S, advection"):
        system.without("radiation")


def test_without_reaches_into_a_product_with_a_sum():
    system = po.PDESystem("sum", {T: kappa(T) * (laplacian(T) + laplacian(T + T)) + S})
    assert repr(system.without("laplacian")).endswith("dT/dt = S")


def test_without_takes_a_coefficient_out_of_an_advecting_wind_and_lets_the_rest_carry():
    share, aloft = po.Positive("share", "1", init=0.5), po.Closure("aloft", "m/s")
    carried = po.PDESystem("carried", {T: -advection(T, u + share * aloft, v + share * aloft), u: 0.0, v: 0.0})
    assert "dT/dt = -(u,v)·∇T" in repr(carried.without("share"))
    assert carried.without("aloft").equations[T].value == 0.0  # a closure takes its term, as everywhere
    alone = po.PDESystem("alone", {T: -advection(T, share * aloft, share * aloft) + S})
    assert repr(alone.without("share")).endswith("dT/dt = S")


def test_with_replaces_an_equation_and_leaves_the_original_alone():
    system = make_system()
    changed = system.with_({T: S}, name="changed")
    assert changed.equations[T] == S
    assert system.equations[T] != S


def test_every_kind_of_nonsense_is_refused_when_declared():
    with pytest.raises(DeclarationError, match="no equation"):
        po.PDESystem("empty", {})
    with pytest.raises(DeclarationError, match="is not a Field"):
        po.PDESystem("key", {S: S})
    with pytest.raises(DeclarationError, match="'v' has no equation"):
        po.PDESystem("open", {u: -advection(u, u, v)}).compile(GRID)
    with pytest.raises(DeclarationError, match="two symbols are called 'S'"):
        po.PDESystem("twice", {T: S + po.Static("S", "K/s")}).compile(GRID)
    with pytest.raises(DeclarationError, match="Static 'h' is not supplied"):
        po.PDESystem("static", {T: po.Static("h", "K/s") + S}).compile(GRID)
    with pytest.raises(UnknownNameError, match="no backend 'torhc'"):
        make_system().compile(GRID, backend="torhc")


@pytest.mark.parametrize(
    "equations",
    [
        lambda: {T: po.Positive("w", "1/s", init=1.0) * T, u: po.Positive("w", "1/s", init=1.0) * po.Field("T", "m/s")},
        lambda: {T: S + po.Positive("w", "K/m", init=1.0) * po.Closure("S", "m/s")},
        lambda: {T: S, po.Field("T", "m"): 0.0},
        lambda: {u: u * po.Static("f", "1/s"), v: po.Field("u", "m/s", component="x") * po.Static("f", "1/s")},
        lambda: {T: po.Positive("w", "1/s", init=1.0) * T, u: po.Positive("w", "1/s", init=2.0) * u},
        lambda: {T: po.Positive("w", "1/s", init=1.0) * T, u: po.Positive("w", "1/s", init=1.0, cap=2.0) * u},
        lambda: {T: po.Positive("w", "1/s", init=1.0) * T, u: po.Positive("w", "1/s", init=1.0, learnable=False) * u},
        lambda: {T: po.Positive("w", "1/s", init=1.0) * T, u: po.Positive("w", "m/s**2", init=1.0)},
    ],
    ids=["field", "closure", "two equations", "component", "initial value", "cap", "learnable", "coefficient"],
)
def test_one_name_declared_in_two_ways_is_refused_with_both(equations):
    with pytest.raises(DeclarationError, match=r"(two symbols are called|is declared with two).* and .*"):
        po.PDESystem("mixed", equations())


def test_one_name_declared_twice_alike_is_one_symbol():
    fields = po.Field("h", "J/kg"), po.Field("h", "m**2/s**2", latex="h_2")
    system = po.PDESystem("alike", {fields[0]: po.Positive("w", "1/hour", init=3600.0) * fields[1]
                                    + po.Positive("w", "1/s", init=1.0) * fields[0]})  # fmt: skip
    assert len(system.coefficients) == 1 and system.compile(GRID).field_names == ("h",)


def test_a_change_in_another_unit_is_no_second_equation_of_the_field():
    with pytest.raises(DeclarationError, match=r"two symbols are called 'T'.*\[K\].*\[m\]"):
        make_system().with_({po.Field("T", "m"): 0.0})


def test_what_the_grid_supplies_has_the_unit_of_the_grid():
    distance = po.Static("f", "m/s**2")
    with pytest.raises(UnitError, match=r"Static 'f' is declared in \[m/s²\], but the grid supplies it in \[1/s\]"):
        po.PDESystem("slip", {u: distance}).compile(GRID)
    po.PDESystem("own", {u: distance}).compile(GRID, statics={"f": 1.0})


def test_equal_subexpressions_become_one_node():
    once = lower([laplacian(u)], [u])
    twice = lower([laplacian(u) + laplacian(u) * 2.0], [u])
    assert sum(n.kind == "call" for n in once.nodes) == sum(n.kind == "call" for n in twice.nodes) == 1


def test_calls_that_differ_in_the_batched_argument_share_a_group():
    program = lower(list(make_system().equations.values()), [u, v, T])
    sizes = sorted(len(g.members) for g in schedule(program) if program.nodes[g.members[0]].kind == "call")
    assert sizes[-2:] == [3, 3]  # advection and Laplacian of three fields, one call each


def test_batched_and_separate_evaluation_agree():
    tendency = make_system().compile(GRID).double()
    state, closures = make_inputs(dtype=torch.float64)
    together = tendency(state, closures)
    tendency.runner.groups = schedule(tendency.program, batched=False)
    # the same operations on the same numbers, only stacked
    torch.testing.assert_close(tendency(state, closures), together, rtol=0, atol=0)


def test_the_compiled_system_computes_what_the_equation_says():
    tendency = make_system().compile(GRID).double()
    state, closures = make_inputs(dtype=torch.float64)
    wind_u, wind_v, _ = state.unbind(1)
    values = dict(zip([s.name for s in tendency.coefficients.symbols], tendency.coefficients().detach(), strict=True))
    f_rows = torch.tensor(GRID.f)[:, None]
    expected = (
        -advection(wind_u, wind_u, wind_v, grid=GRID)
        + values["kappa_u"] * laplacian(wind_u, grid=GRID)
        + f_rows * wind_v
        - values["r"] * wind_u
    )
    torch.testing.assert_close(tendency(state, closures)[:, 0], expected, rtol=1e-13, atol=0)


def test_advance_is_a_forward_euler_step_with_a_factor_per_field():
    tendency = make_system().compile(GRID).double()
    state, closures = make_inputs(dtype=torch.float64)
    factor = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)
    expected = state + 60.0 * factor[:, None, None] * tendency(state, closures)
    torch.testing.assert_close(tendency.advance(state, closures, 60.0, factor), expected, rtol=1e-14, atol=0)


def test_gradients_reach_state_closures_and_every_coefficient():
    tendency = make_system().compile(GRID)
    state, closures = make_inputs()
    state.requires_grad_()
    closures["S"].requires_grad_()
    tendency(state, closures).square().sum().backward()
    assert (tendency.coefficients.raw.grad != 0).all()
    assert (state.grad != 0).any()
    assert (closures["S"].grad != 0).all()


@pytest.mark.parametrize(
    ("state", "closures", "complaint"),
    [
        (torch.zeros(2, 3, 9, 10), {"S": torch.zeros(2, 9, 11)}, r"must be \[batch, 3, 9, 11\]"),
        (torch.zeros(3, 9, 11), {"S": torch.zeros(2, 9, 11)}, r"must be \[batch"),
        (torch.zeros(2, 3, 9, 11, dtype=torch.float64), {"S": torch.zeros(2, 9, 11)}, "float64"),
        (torch.zeros(2, 3, 9, 11), None, "missing S"),
        (torch.zeros(2, 3, 9, 11), {"S": torch.zeros(2, 9, 11), "Q": torch.zeros(())}, "unknown Q"),
        (torch.zeros(2, 3, 9, 11), {"S": torch.zeros(2, 9, 7)}, "closure 'S' must broadcast"),
    ],
)
def test_a_wrong_call_says_what_was_expected_and_what_came(state, closures, complaint):
    with pytest.raises(ShapeError, match=complaint):
        make_system().compile(GRID)(state, closures)


def test_statics_can_be_given_as_arrays():
    heating = po.Static("heating", "K/s")
    system = po.PDESystem("forced", {T: 1.0 * heating})
    array = torch.rand(9, 11)
    tendency = system.compile(GRID, statics={"heating": array})
    torch.testing.assert_close(tendency(torch.zeros(1, 1, 9, 11))[0, 0], array)
    with pytest.raises(po.PdeOpsError, match="broadcast"):
        system.compile(GRID, statics={"heating": torch.rand(3, 3)})
    with pytest.raises(po.PdeOpsError, match="no Static is called typo"):
        system.compile(GRID, statics={"heating": array, "typo": array})


def test_a_nudged_rim_pulls_the_border_to_its_reference_and_leaves_the_middle():
    grid = GRID.with_boundary(po.Boundary(rim=po.Rim(width=2, timescale=100.0)))
    tendency = po.PDESystem("still", {T: 0.0}).compile(grid)
    assert tendency.closure_names == ("rim_T",)
    rate = tendency(torch.zeros(1, 1, 9, 11), {"rim_T": torch.ones(1, 9, 11)})[0, 0]
    assert rate[0, 0] == pytest.approx(0.01)
    assert (rate[2:-2, 2:-2] == 0).all()


def test_geometry_is_exact_after_moving_to_double_precision():
    tendency = make_system().compile(GRID).double()
    held = tendency.inputs(*make_inputs(dtype=torch.float64)).grid.dx
    assert held.dtype == torch.float64
    assert held[:, 0].tolist() == GRID.dx.tolist()


def test_the_state_dict_of_one_backend_loads_into_another():
    first, second = make_system().compile(GRID), make_system().compile(GRID, backend="inductor")
    first.coefficients.assign(r=3.0)
    second.load_state_dict(first.state_dict())
    assert second.parameters_in_units()["r"].magnitude == pytest.approx(3.0, rel=1e-6)


def test_a_whole_system_runs_on_cuda_tensors_without_touching_the_cpu():
    with fake_cuda():
        tendency = make_system().compile(GRID, limits=po.stability.limits(GRID, 600.0))
        state = torch.empty(2, 3, 9, 11, requires_grad=True)
        out = tendency(state, {"S": torch.empty(2, 9, 11)})
        assert out.device.type == "cuda"
        assert out.requires_grad


def test_moving_the_module_moves_its_geometry():
    heating = po.Static("heating", "K/s")
    tendency = po.PDESystem("forced", {T: kappa(T) * laplacian(T) + heating}).compile(
        GRID, statics={"heating": torch.rand(9, 11)}
    )
    moved = tendency.to("meta")
    inputs = moved.inputs(torch.empty(1, 1, 9, 11, device="meta"), None)
    held = [inputs.coefficients, inputs.grid.dx, *inputs.statics.values()]
    assert {tensor.device.type for tensor in held} == {"meta"}
    assert moved(torch.empty(1, 1, 9, 11, device="meta")).device.type == "meta"


def test_a_tensor_left_on_the_cpu_is_caught():
    with fake_cuda(), pytest.raises(RuntimeError, match="device"):
        torch.empty(3) + torch.empty(3, device="cpu")


def test_the_compiled_system_traces_as_one_graph():
    tendency = make_system().compile(GRID)
    state, closures = make_inputs()
    traced = torch.compile(tendency, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(state, closures), tendency(state, closures))


def test_limits_cap_the_coefficients_and_bound_the_advecting_wind():
    limits = po.stability.limits(GRID, 1800.0, max_wind=10.0, diffusivity=1e4)
    tendency = make_system().compile(GRID, limits=limits)
    # kappa_u shares what the wind leaves with the friction in the same equation
    assert float(tendency.coefficients.cap[0]) == pytest.approx(limits.diffusivity_cap / 2, rel=1e-6)
    wind = torch.zeros(1, 3, 9, 11)
    wind[:, 0], wind[:, 2] = 100.0, torch.arange(11.0)
    slow = torch.zeros(1, 3, 9, 11)
    slow[:, 0], slow[:, 2] = 10.0, torch.arange(11.0)
    nothing = {"S": torch.zeros(1, 9, 11)}
    torch.testing.assert_close(tendency(wind, nothing)[:, 2], tendency(slow, nothing)[:, 2], rtol=1e-6, atol=0)


def test_documentation_of_a_system_names_units_and_references():
    printed = make_system().to_markdown()
    assert r"\frac{\partial T}{\partial t} &= -(u,v)\cdot\nabla T + \kappa_{T}\,\nabla^2 T + S" in printed
    assert "| km²/h | 36 |" in printed
    assert all(reference in printed for reference in make_system().citations())


def test_nothing_in_forward_knows_units(monkeypatch):
    tendency = make_system().compile(GRID)
    import pint

    def refuse(*args, **kwargs):
        raise AssertionError("a pint object was made in forward")

    monkeypatch.setattr(pint.Quantity, "__new__", refuse)
    tendency(*make_inputs())
