"""The benchmark of analyses by 4D-Var: it goes on where it was stopped, and carries on where nothing is reported."""

import json

import numpy as np
import pytest
import torch

import pde_ops as po
from benchmarks.assimilation import measure, table

NAME = "metar_conus"


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A network of 150 stations under a steady wind that carries a wave of warmth."""
    draw = np.random.default_rng(0)
    lat, lon = draw.uniform(33.5, 42.5, 150), draw.uniform(-99.5, -85.5, 150)
    alt = draw.uniform(0.0, 800.0, 150)
    hours = np.arange(5)[:, None]
    obs = np.full((5, 150, 5), np.nan, np.float32)
    obs[..., 0], obs[..., 1] = 10.0, 0.0
    east = 111.0 * np.cos(np.deg2rad(38.0)) * (lon - lon.min()) - 36.0 * hours  # km, carried with the wind
    obs[..., 3] = 15.0 + 5.0 * np.sin(east / 200.0) - 6.5e-3 * alt + 0.3 * draw.normal(size=(5, 150))
    obs[1:3, 7] = np.nan  # a station that is silent for a while
    obs[3] = np.nan  # an hour without any report
    folder = tmp_path / "data" / NAME
    folder.mkdir(parents=True)
    variables = np.array(["u", "v", "p", "t", "rh"])
    time = np.datetime64("2025-09-17T00:00:00") + np.arange(5) * np.timedelta64(1, "h")
    np.savez(folder / "observations.npz", obs=obs, variables=variables, time=time, lat=lat, lon=lon, alt_m=alt)
    monkeypatch.setenv("STATIONPDE_SHARED", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_stopped(shared):
    measure(NAME, 2, 16, 0, shared / "parts.json")
    parts = measure(NAME, 4, 16, 0, shared / "parts.json")
    whole = measure(NAME, 4, 16, 0, shared / "whole.json")
    assert parts["hours"] == whole["hours"]
    assert json.loads((shared / "parts.json").read_text())["hours"] == whole["hours"]
    assert "iterations" not in whole["hours"]["3"] and "iterations" in whole["hours"]["4"]
    last = whole["hours"]["2"]["errors"]["t"]
    root = {method: np.sqrt(total / count) for method, (total, count) in last.items()}
    assert root["4dvar"] < root["persisted"]
    assert root["4dvar"] < 1.0  # of a wave of 5 K with noise of 0.3 K
    assert "| t | K |" in table(whole)


def test_the_equations_of_the_benchmark_carry_warmth_with_the_wind():
    from benchmarks.assimilation import EQUATIONS

    grid = po.Grid2D.plane(4, 40, dx=35e3, boundary="periodic")
    step = po.integrators["ssprk3"](EQUATIONS.compile(grid).double(), dt=600.0)
    wave = torch.sin(2.0 * torch.pi * torch.arange(40, dtype=torch.float64) / 40.0).expand(4, 40)
    state = torch.stack([torch.full((4, 40), 35e3 / 3600.0, dtype=torch.float64), 0.0 * wave, wave])[None]
    still = {name: torch.zeros(1, 4, 40, dtype=torch.float64) for name in ("Fu", "Fv", "Q")}
    with torch.no_grad():
        later = po.integrate(step, state, 6, still)
    # One cell an hour; 50 km²/h of mixing takes 0.1 % off, the scheme as little.
    assert torch.allclose(later[0, 2], wave.roll(1, 1), atol=4e-3)
