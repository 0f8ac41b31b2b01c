"""From finished cells to the page of the systems that the paper names: what we took, where ours differs, the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from benchmarks.guided_lift import LIFTS, guided_lift_section
from stationpde.baselines import baseline
from stationpde.evaluation import Cell, grid, read_cell, shown_number

__all__ = ["SYSTEMS", "System", "systems_page"]

_PROTOCOL, _HOURS = "w2k-like", 24
_ABSENT = "not yet computed"
_VARIANT = "field"  # of the model, whose ablation has a row for the residual
HEAD = """# The systems that the paper names

Written by `python -m benchmarks --render` from `benchmarks/systems.py` and `benchmarks/cells`. The score is the nMSE of
`stationpde benchmark` ({caption}),
lower is better, the mean over the seeds that there are; each variable is in [Results](results.md). Ours under the same cap:
{ours}. What has no cell is *{absent}*. A system that is no forecaster of stations has a score of another kind: a loss that
of the forecaster it was added to, beside the same without it; a lift the tables below.

Every forecaster runs through the same registry, windows, masks, training statistics, cap of CPU time, search on validation,
checkpoints and scores ([Evaluation](evaluation.md)). All are written or called here so that any number of stations,
gaps in the record, and a station that never reports are no obstacle. Where public code contradicts its paper or cannot be
sound, the sound reading is the default and the published one an option with its name; the column *chosen on validation* in
[Results](results.md) says which one a cell used.

"""  # noqa: E501
TAIL = """
## The residual of the equations in a loss

`loss.residual` (PhyDL-NWP's second stage) adds the mean square of what the equations do not explain of an interval to the loss
of `default`, `field`, `paper` and `cdpnet`. With the fields X an interval Δt apart and the terms Φ of the configuration's
equations without what networks add to them, the residual of a field is

    r = (X(t + Δt) − X(t) − Δt (Σ λ Φ((X(t) + X(t + Δt)) / 2) + Q)) / s

in parts of s, the standard deviation of that field in training; the outer ring of cells does not count. Each term of each
equation has a coefficient λ ≥ 0 in its own unit, and Q is a mean and two harmonics of the local day. Both are learned on the
lifted observations and held for the forecast, so that no forecast buys a small residual by switching a term off; the original
learns them in a stage before. `stationpde plot physics RUN` and the report show λ (`lambda_advection_theta`,
`lambda_laplacian_u` in km²/h …) and the size of Q (`force_theta` in K/h …), a benchmark keeps them in its cell, and
`stationpde ablate STORE --variant field` has a row for it. CDPNet's own field is normalised and has no unit: its forecast at
the stations is lifted to the grid of the configuration. Peers without a field ignore the key.

```python
from stationpde.config import Config

field = Config.preset(variant="field")
print(field.diff(field.with_overrides(["loss.residual=0.01"])))
```

## The physics-guided lift

`stationpde field lift STORE OUT.zarr --method pinn` fits a network (t, x, y) → (u, v, p′) to every two weeks of a record,
under continuity and the equations of motion without friction; `--no-coriolis` leaves the Coriolis term out, as the original
does. p′ is the pressure reduced to sea level as `detrended` reduces it; temperature and humidity are lifted as by `detrended`.
What it takes is measured and said before the first network is fitted, and refused beyond 30 CPU-minutes a network. The same
`--seed` gives the same fields. Five stations with wind and five times are the least.

{lifts}
## Options as published

| baseline | option | as published | default |
|---|---|---|---|
| `dgformer` | `published_distance_sign` | the weight of an edge for temperature and humidity grows with distance | it falls |
| `mastergnn` | `published_detached_forecast` | the forecast is detached before the critics: their loss trains nothing but themselves | the gradient passes, with its sign turned round |
| `field lift --method pinn` | `PinnSettings(published_loss=True)` | the loss Σ l²/Σ l is differentiated whole: a loss below half the weighted mean is driven up | its weights l/Σ l have no gradient |
| `weathergft` | `published_range_scaling` | increments are mapped over the whole batch, detached; a uniform tendency gives NaN | by sample, guarded, with a gradient |

```python
from stationpde.baselines import baseline

make = baseline("dgformer").make  # make(config, source, published_distance_sign=True)
print(baseline("dgformer").switches)
```

With `published_range_scaling` a forecast depends on the windows beside it, and the benchmark refuses to score it (SPDE-B020).

## Memory with many stations

`dgformer` and `mastergnn` have edges from ten neighbours and the station itself, not from all pairs: memory grows with the
number of stations. `weathergft` works on the grid, whose size is bounded. Dense in the number of stations are one map of the
macro critic of `mastergnn` (160 numbers for each station) and the two maps of `cdpnet` between stations and cells. A network that has no validation within its cap says so (SPDE-B011).

## Data, and one source

The paper's data are Weather2K and MeteoNet ([Reproduce the paper](reproduce-the-paper.md)); its baselines other than
Corrformer and CDPNet come from Time-Series-Library (Wang et al. 2024), ours from `neuralforecast` or from here.
"""  # noqa: E501


class System(NamedTuple):
    """A system that the paper names; ``model`` is its baseline, if it is a forecaster of stations.

    ``part`` is the part of an ablation of the variant ``field`` that adds it, if it is a loss; ``score`` where else.
    """

    title: str
    reference: str
    adopted: str
    differs: str
    model: str | None = None
    part: str | None = None
    score: str = "–"


_CALLED = "one station at a time with weights that all stations share"
SYSTEMS = (
    System(
        "Autoformer", "Wu et al., NeurIPS 2021", "auto-correlation, decomposition into season and trend",
        f"{_CALLED}; delays by row, not by batch, so that a forecast does not depend on the windows beside it",
        "autoformer",
    ),
    System(
        "StemGNN", "Cao et al., NeurIPS 2020", "learned graph, spectral filters in graph and time",
        f"{_CALLED}, the variables as nodes; a graph for each row, not the mean over a batch", "stemgnn",
    ),
    System(
        "Corrformer", "Wu et al., Nat. Mach. Intell. 2023", "tree of stations, correlation with lags between them",
        "any number of stations, empty places masked, any device; narrower, to train on a processor in minutes",
        "corrformer",
    ),
    System(
        "MasterGNN+", "Han et al., TKDE 2023", "two graphs, attention with context, three critics",
        "the critics train the forecast; environment from the record; a plain recurrence (the evolved one is not "
        "described); neighbours instead of all pairs", "mastergnn",
    ),
    System(
        "DLinear", "Zeng et al., AAAI 2023", "moving average and the rest, one linear layer each", _CALLED, "dlinear"
    ),
    System(
        "iTransformer", "Liu et al., ICLR 2024", "a token for each variable", f"{_CALLED}; width 128, two layers",
        "itransformer",
    ),
    System(
        "TimeMixer", "Wang et al., ICLR 2024", "mixing over time scales", f"{_CALLED}; halvings follow the window",
        "timemixer",
    ),
    System(
        "TimeXer", "Wang et al., NeurIPS 2024", "patches and a global token",
        f"{_CALLED}; each variable has the others as exogenous ones", "timexer",
    ),
    System(
        "MultiPatchFormer", "Naghashi et al., Sci. Rep. 2025", "patches of four lengths, forecast in parts",
        f"{_CALLED}; patches follow the window; attention is not masked", "multipatchformer",
    ),
    System(
        "TimeFilter", "Hu et al., ICML 2025", "graph of patches whose edges are filtered by kind",
        f"{_CALLED}; the loss that trains the gate is kept; edges that are cut have no weight", "timefilter",
    ),
    System(
        "CDPNet", "Xu et al., 2025", "stations lifted to a field that a learned motion carries on",
        "any shape of the grid; hour and season of the issue once; the direct forecast is trained first for at most a "
        "quarter", "cdpnet",
    ),
    System(
        "DGFormer", "Xu et al., GeoInformatica 2024",
        "dynamic graph with factors of heat and wind, messages, recurrence",
        "influence falls with distance; all variables together, each over the graph of its kind; no term of "
        "acceleration; neighbours instead of all pairs", "dgformer",
    ),
    System(
        "WeatherGFT", "Xu et al., NeurIPS 2024",
        "attention beside kernels of the equations, mixed by channel; the range scaling of the printed model "
        "(`pde.rule=range`) is its idea", "a surface adaptation: surface equations about the climatology on a lifted "
        "field instead of 13 pressure levels; scaling by sample and guarded", "weathergft",
    ),
    System(
        "Physics-guided reconstruction", "Soto et al., Open Res. Europe 2024",
        "a network for wind and pressure under the equations of motion, fitted to stations: the lift `pinn`",
        "the Coriolis term, which a switch leaves out; 4 layers of 64 instead of 18 of 600; pressure reduced with the "
        "lapse of the moment; losses are weighed without a gradient",
        score="[the tables below](#the-physics-guided-lift)",
    ),
    System(
        "PhyDL-NWP", "Luo et al., KDD 2025",
        "the residual of a physical system as a loss on forecast fields (`loss.residual`)",
        "squared (the code takes the signed mean), in SI with the true distances (there dx = dt = 1), terms learned "
        "on observations in the same training; the continuous network of its first stage is left out",
        part="with_residual",
    ),
    System(
        "WRF-ARW", "Skamarock et al., 2019", "second-order horizontal diffusion, for wind and scalars alike",
        "no baseline; κ is learned for each field (`stationpde ops show surface`)",
    ),
    System(
        "NowcastNet", "Zhang et al., Nature 2023", "nothing: named for what station forecasts are used for",
        "no baseline: it forecasts rain from radar images",
    ),
)  # fmt: skip


def systems_page(folder: Path, lifts: Path = LIFTS) -> str:
    """Return the page, with scores from the cells of a folder, and of lifts from another."""
    cells = [read_cell(path) for path in sorted(folder.glob(f"{_PROTOCOL}-{_HOURS}h-*.json"))]
    by_model: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.task.leave_out == 0 and cell.task.recipe == "default":  # trainings of their own have rows of their own
            by_model.setdefault(cell.task.model, []).append(cell)
    ablation: dict[str, list[Cell]] = {}
    for path in sorted((folder / "ablation").glob(f"{_PROTOCOL}-{_HOURS}h-{_VARIANT}*.json")):
        cell = read_cell(path)
        ablation.setdefault(cell.task.model, []).append(cell)
    rows = [
        [f"**{system.title}** ({system.reference})", system.adopted, system.differs, _score(system, by_model, ablation)]
        for system in SYSTEMS
    ]
    head = HEAD.format(caption=_caption(cells), ours=_ours(by_model), absent=_ABSENT)
    tail = TAIL.replace("{lifts}", guided_lift_section(lifts))
    return head + grid(["system", "what we took", "where ours differs", "score (nMSE)"], rows) + "\n" + tail


def _score(system: System, cells: Mapping[str, Sequence[Cell]], ablation: Mapping[str, Sequence[Cell]]) -> str:
    if system.part is not None:
        whole, name = ablation.get(_VARIANT), f"{_VARIANT}-{system.part}"
        if whole is None or name not in ablation:
            return f"`{name}` {_ABSENT}"
        return f"`{name}` {_mean(ablation[name])}, `{_VARIANT}` {_mean(whole)}"
    if system.model is None:
        return system.score
    name = baseline(system.model).name  # an unknown one is an error
    return f"`{name}` {_mean(cells[name])}" if name in cells else f"`{name}` {_ABSENT}"


def _mean(cells: Sequence[Cell]) -> str:
    return shown_number(mean(cell.about["nmse"] for cell in cells))


def _ours(cells: Mapping[str, Sequence[Cell]]) -> str:
    return ", ".join(f"`{name}` {_mean(cells[name])}" for name in ("default", "paper") if name in cells) or _ABSENT


def _caption(cells: Sequence[Cell]) -> str:
    names = sorted({f"`{cell.about['data']['name'].partition('/')[0]}`" for cell in cells})
    where = f", {', '.join(names)}" if names else ""
    return f"{_PROTOCOL}, {_HOURS} h ahead{where}"
