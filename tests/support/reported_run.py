"""A run of a few steps on a made-up network whose stations have names that no page should trust."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from fields import qc, store
from fields.synthetic.network import make_network
from stationpde.config.tree import Config
from stationpde.data.datasets import load_series
from stationpde.report.view import RunView, build_run_view
from stationpde.training.session import train

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><script>document.title='broken'</script>",
    "<!-- $title {{x}} --> & ' ünïcode 站",
)
SMALL = ("train.max_steps=4", "train.batch=2", "train.validate_windows=6", "pde.backend=torch", "pde.max_wind=25")


@lru_cache(maxsize=1)
def reported_run() -> tuple[Path, Path]:
    """Train the run once; return its directory and the store."""
    folder = Path(tempfile.mkdtemp(prefix="stationpde-report-"))
    ds = make_network(12, 24, seed=1)
    names = [*HOSTILE, *(f"SY{i:03d}" for i in range(len(HOSTILE), 12))]
    ds = ds.assign_coords(station=np.array(names))
    data = store.write_store(ds.assign(qc.check_quality(ds).data_vars), folder / "net.zarr")
    config = Config.preset("tiny").with_overrides(SMALL)
    run = folder / "run <b>"
    train(config, load_series(str(data), config.data), run)
    return run, data


@lru_cache(maxsize=1)
def reported_view() -> RunView:
    run, data = reported_run()
    return build_run_view(run, data, windows=12)
