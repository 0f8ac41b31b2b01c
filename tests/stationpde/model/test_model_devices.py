"""The model on other devices, in other types, and as one graph: nothing depends on values or on the processor."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from pde_ops.errors import BackendError
from pde_ops.testing.fake_cuda import _ensure_guard
from small_network import VARIANTS, small_config, small_model, wild, windows

# One sub-step an interval: tracing takes its time.
SHORT = ("data.horizon=1", "data.step=2h", "pde.dt=7200")


@pytest.mark.parametrize("variant", ["default", "paper", "detrended"])
def test_a_model_in_double_precision_computes_in_it_and_agrees_with_single(variant):
    model = small_model(small_config(variant))
    wild(model, 0.1)
    batch = windows(model.config, [2, 7])
    with torch.no_grad():
        single = model(batch.history, batch.issue_time, keep_fields=True)
        double = model.double()(batch.history.double(), batch.issue_time, keep_fields=True)
    assert all(getattr(double, name).dtype == torch.float64 for name in ("observed", "state", "fields", "router"))
    scale = model.sites.scale
    torch.testing.assert_close(single.state / scale, double.state / scale, rtol=0, atol=5e-3, check_dtype=False)


# Fake tensors take seconds for each. These three have every part of the model between them; what the others change are
# operators, of which each is put on a fake device by the generic suite.
PARTS_OF_ALL = ("paper", "printed closure", "detrended")


@pytest.mark.parametrize(
    "variant", [v if v in PARTS_OF_ALL else pytest.param(v, marks=pytest.mark.slow) for v in VARIANTS]
)
def test_nothing_stays_behind_on_the_processor(variant):
    try:
        _ensure_guard()
    except BackendError as reason:
        pytest.skip(str(reason))
    model = small_model(small_config(variant))
    batch = windows(model.config, [2, 7])
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        there = {key: mode.from_tensor(t).to("cuda") for key, t in {"h": batch.history, "t": batch.issue_time}.items()}
        forecast = model.to("cuda")(there["h"], there["t"], keep_fields=True)
    for name in ("observed", "state", "fields", "router"):
        assert getattr(forecast, name).device.type == "cuda", name
    assert forecast.observed.shape == (2, 2, 12, 5)


@pytest.mark.parametrize("variant", ["paper", pytest.param("default", marks=pytest.mark.slow)])
def test_a_forecast_is_one_graph(variant):
    model = small_model(small_config(variant, SHORT))
    batch = windows(model.config, [2, 7])
    torch._dynamo.reset()
    with torch.no_grad():
        expected = model(batch.history, batch.issue_time).observed
        # fullgraph: a break, which anything that depends on values would cause, is an error.
        observed = torch.compile(model, fullgraph=True, backend="eager")(batch.history, batch.issue_time).observed
    torch.testing.assert_close(observed, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "default"])
def test_a_forecast_and_its_gradient_are_one_graph_each(variant):
    model = small_model(small_config(variant, SHORT))
    wild(model, 0.05)
    batch = windows(model.config, [2, 7])
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    gradients = []
    for run in (model, compiled):
        model.zero_grad()
        run(batch.history, batch.issue_time).state[..., 3].mean().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
