"""Lift of a whole record: from a station store to a field store, block by block along time.

Blocks are independent, so threads, the processes of a local dask cluster or the workers of an existing one may share
them; memory is that of a few blocks, whatever the length of the record. A finished block is durable and journalled:
after a kill the same command resumes where it stopped, the block of a lost worker is repeated by another, and the
field store appears under its name only when all blocks are written.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fields import atomic, store
from fields.checks import are_at_one_place
from fields.errors import DataError, ResourceError, UsageError, locate, printable, require_processes
from fields.grid import Elevation, GridSpec
from fields.lift.altitude import station_altitude
from fields.lift.capacity import require_capacity
from fields.lift.crossval import scattered_times
from fields.lift.lift_error import LiftError
from fields.lift.methods import LIFT_METHODS, LiftSettings, StationLift
from fields.lift.pinn_error import pinn_errors
from fields.lift.pinn_lift import PinnLift, require_enough, window_steps
from fields.lift.pinn_settings import PINN, PinnSettings
from fields.lift.profiles import PRIORS
from fields.places import Places
from fields.progress import Tracker, Watcher
from fields.store import BlockWriter, Region
from fields.times import utc_seconds
from fields.variables import PressureKind, cf_attributes

__all__ = ["LiftSummary", "lift_to_store"]

logger = logging.getLogger(__name__)

# Variables that may be averaged; a wind direction in degrees may not.
LIFTED = ("u", "v", "p", "t", "rh", "psl", "td")
COVERAGE, SLOPE = "_coverage", "_slope"
# Standard deviation of the error at each cell, and by how much it is larger at each moment.
ERROR, FACTOR = "_error", "_error_factor"
# Bytes of one block's input and output; a worker holds a few times this.
_BLOCK_BYTES = 64 << 20
# Blocks as long as the chunks of a station store, or parts and multiples of them.
_CHUNK = 512
# Moments, spread over the record, that stations are looked for in and errors are learned from.
_SAMPLED, _LEARNED = 256, 128
# Values of a variable that errors are learned from: fewer moments of many stations.
_LEARNED_VALUES = 1 << 16

# Distance [m] of relief and stations, in the middle of at least so many, from which the one is not of the other.
_FAR_RELIEF = 250.0
_FEWEST_COMPARED = 4


@dataclass(frozen=True, slots=True)
class LiftSummary:
    """Outcome of `lift_to_store`.

    Parameters
    ----------
    path, grid, variables, moments : the field store and its size
    blocks, resumed_blocks : number of blocks, and of those that an earlier, interrupted call had written
    empty_moments : moments without any observation, whose fields are missing
    dropped_stations : stations that never report or have no altitude
    has_error : whether the error is written beside every field
    """

    path: Path
    grid: GridSpec
    variables: tuple[str, ...]
    moments: int
    blocks: int
    resumed_blocks: int
    empty_moments: int
    dropped_stations: tuple[str, ...]
    has_error: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome for JSON."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True, slots=True)
class LiftJob:
    """Input of `lift_block` that all blocks share; sent to each worker process once."""

    source: str
    chosen: tuple[int, ...]
    variables: tuple[str, ...]
    lift: StationLift
    shape: tuple[int, int]
    station_pressure: bool
    writer: BlockWriter
    target: str
    pinn: PinnLift | None = None
    error: LiftError | None = None


def lift_to_store(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    settings: LiftSettings | None = None,
    pinn: PinnSettings | None = None,
    height: int = 32,
    dem: str | os.PathLike[str] | None = None,
    grid: GridSpec | None = None,
    variables: Sequence[str] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    block_steps: int | None = None,
    error: bool = True,
    force: bool = False,
    announce: Callable[[str], None] | None = None,
    watcher: Watcher | None = None,
) -> LiftSummary:
    """Lift every moment of a station store onto a grid and write it as a field store.

    Parameters
    ----------
    source : path of the station store
    target : path of the field store to write
    settings : method, neighbours and distance
    pinn : lift wind and pressure through a network for every two weeks, and the rest as ``detrended``
    height : number of rows of the grid around the network, unless ``grid`` is passed
    dem : elevation model for the cells' altitude; without one the stations' altitudes are interpolated (paper)
    grid : the grid to lift to
    variables : names of the variables to lift; by default all that may be averaged
    workers : number of processes of a local dask cluster; None or 0 uses threads of this process
    scheduler : address of a running dask scheduler to use instead
    block_steps : number of moments in a block; by default as many as a fixed amount of memory holds
    error : whether to write the standard deviation of the error beside every field
    force : whether to replace an existing ``target``
    announce : called with what the networks of ``pinn`` will take, before the first is fitted
    watcher : informed of the progress
    """
    settings = settings or LiftSettings()
    settings = settings if pinn is None else replace(settings, method="detrended")
    require_processes(0 if workers is None else workers, "--workers")
    atomic.refuse_input(target, source)
    ds = store.open_stations(source)
    names = _names(ds, variables)
    model = None if dem is None else Elevation.open(Path(dem))
    ds = _with_altitudes(ds, model)
    sample = _sample(ds, names)
    alive, dropped = _stations(ds, names, sample)
    stations = Places.from_dataset(ds).take(alive)
    if model is not None:
        _compare_relief(model, stations)
    if are_at_one_place(stations.lat, stations.lon):
        logger.warning("all %d stations stand at one place: the fields differ in altitude alone", len(stations))
    grid = grid or GridSpec.around(stations.lat, stations.lon, height=height)
    is_large = require_capacity(Path(target), grid, settings.k, (ds.sizes["time"], len(names), len(alive)))
    tracker = Tracker(watcher)
    passes = partial(tracker, "weigh", total=2, unit="passes") if is_large else (lambda done: None)
    passes(0)
    altitude = station_altitude(*stations.coordinates, grid, settings) if model is None else model.on(grid)
    passes(1)
    lift = StationLift.between(stations, (*grid.cells(), altitude.ravel()), settings, metric=grid.metric)
    passes(2)
    station_pressure = PressureKind.of(ds.attrs) != PressureKind.SEA_LEVEL
    template = _template(ds.isel(station=alive), grid, altitude, names, lift, None if dem is None else Path(dem).name)
    identity = f"{store.fingerprint(source)};{asdict(settings)};{grid.to_dict()};{names};{list(alive)};{error}"
    block = block_steps or _block_length(len(alive), grid.size, len(names))
    guided = None
    if pinn is not None:
        targets = (*grid.cells(), altitude.ravel())
        guided = PinnLift.between(stations, targets, pinn, settings, metric=grid.metric)
        template.attrs |= {"method": PINN, "pinn_settings": json.dumps(asdict(pinn))}
        identity += f";{asdict(pinn)}"
        block = _announced(ds.isel(station=alive), names, guided, station_pressure, error, announce)
    learned = None
    if error:
        learned = _learned(ds.isel(station=alive), sample[:, alive], names, stations, guided, block, lift, grid)
    if learned is not None:
        _add_error(template, names, learned, stations, (*grid.cells(), altitude.ravel()), grid)
    with store.create(
        target, template, force=force, resume=True, identity=identity, time_block=block, kind="fields"
    ) as staged:
        job = LiftJob(
            str(Path(source).resolve()), tuple(map(int, alive)), names, lift, grid.shape, station_pressure,
            staged.writer, str(target), guided, learned,
        )  # fmt: skip
        pending, total = staged.pending(), len(staged.blocks())
        empty = 0
        done = total - len(pending)
        tracker("lift", done, total, "blocks")
        with _executor(workers, scheduler, job) as (executor, shipped):
            waiting = [executor.submit(lift_block, shipped, region) for region in pending]
            try:
                for future in as_completed(waiting):
                    empty += future.result()
                    done += 1
                    tracker("lift", done, total, "blocks")
            except BaseException:
                for future in waiting:
                    future.cancel()
                raise
    if empty:
        logger.warning("%d of %d moments have no observation at all: their fields are missing", empty, ds.sizes["time"])
    return LiftSummary(Path(target), grid, names, ds.sizes["time"], total, total - len(pending), empty, tuple(dropped),
                       learned is not None)  # fmt: skip


def lift_block(job: LiftJob, region: Region) -> int:
    """Lift one block and write it; return the number of its moments without any observation."""
    rows = _opened(job.source).isel(time=region["time"], station=list(job.chosen))[list(job.variables)]
    # Inside a dask worker the read must not become a task of the same cluster.
    rows = rows.load(scheduler="synchronous")
    values = {}
    for name in job.variables:
        array = rows[name].values.astype(np.float32, copy=False)
        values[name] = np.where(np.isfinite(array), array, np.float32(np.nan))
    if job.pinn is None:
        lifted = job.lift(values, station_pressure=job.station_pressure)
    else:
        seconds = utc_seconds(rows["time"]).astype(np.float64)
        lifted = job.pinn(values, seconds, station_pressure=job.station_pressure)
    block: dict[str, Any] = {}
    for name in job.variables:
        block[name] = lifted.values[name].reshape(-1, *job.shape)
        block[name + COVERAGE] = lifted.coverage[name].reshape(-1, *job.shape)
    for name in _sloped(job.lift, job.variables, job.station_pressure):
        block[name + SLOPE] = lifted.planes[name].along_z[..., 0]
    if job.error is not None:
        for name, factor in job.error.factors(values, job.station_pressure).items():
            block[name + FACTOR] = factor
    with atomic.machine_faults(Path(job.target)):
        job.writer.write(block, region)
    seen = np.stack([np.isfinite(array).any(axis=1) for array in values.values()])
    return int((~seen.any(axis=0)).sum())


def _sample(ds: xr.Dataset, names: Sequence[str]) -> np.ndarray[Any, Any]:
    """Load moments spread over a record: ``[time, station, variable]``."""
    part = ds[list(names)].isel(time=scattered_times(ds.sizes["time"], 0.0, _SAMPLED)).load()
    return np.stack([part[name].transpose("time", "station").values for name in names], axis=-1)


def _learned(
    ds: xr.Dataset, sample: np.ndarray[Any, Any], names: Sequence[str], stations: Places, guided: PinnLift | None,
    block: int, lift: StationLift, grid: GridSpec,
) -> LiftError | None:  # fmt: skip
    """Learn the error of a lift from moments of its record; None with too few stations."""
    station_pressure = PressureKind.of(ds.attrs) != PressureKind.SEA_LEVEL
    count = min(_LEARNED, len(sample), max(24, _LEARNED_VALUES // len(stations)))
    few = np.unique(np.linspace(0, len(sample) - 1, count).round().astype(int))
    values = {name: sample[few, :, c].astype(np.float32) for c, name in enumerate(names)}
    levels = None
    if guided is not None:
        levels = pinn_errors(ds, names, stations, guided, block, lift.settings, station_pressure=station_pressure)
    learned = LiftError.learn(
        values, stations, lift.settings, metric=grid.metric, station_pressure=station_pressure, levels=levels
    )
    if learned is None:
        logger.warning("the error of the fields cannot be learned from %d stations: it is left out", len(stations))
    return learned


def _add_error(
    template: xr.Dataset, names: Sequence[str], learned: LiftError, stations: Places, cells: Any, grid: GridSpec
) -> None:
    """Add the error of each variable to a template: its map, which is written at once, and its factor over time."""
    for name in (name for name in names if name in learned.coefficients):
        about = cf_attributes(name)
        deviation = learned.at(name, cells, stations, grid.metric).astype(np.float32).reshape(grid.shape)
        template[name + ERROR] = (
            ("lat", "lon"), deviation,
            {"units": about["units"], "standard_name": f"{about['standard_name']} standard_error",
             "long_name": f"one standard deviation of the error of {name} at an ordinary moment"},
        )  # fmt: skip
        template[name + FACTOR] = (
            ("time",), np.broadcast_to(np.float32(1.0), template.sizes["time"]),
            {"units": "1", "long_name": f"factor of {name}{ERROR} at each moment"},
        )  # fmt: skip
        template[name].attrs["ancillary_variables"] += f" {name}{ERROR} {name}{FACTOR}"


def _announced(
    ds: xr.Dataset, names: Sequence[str], guided: PinnLift, station_pressure: bool, error: bool,
    announce: Callable[[str], None] | None,
) -> int:  # fmt: skip
    """Say what the networks of a record will take, with that of the error; return the steps of each."""
    seconds = utc_seconds(ds["time"]).astype(np.float64)
    step = float(np.median(np.diff(seconds))) if len(seconds) > 1 else 0.0
    length = window_steps(len(seconds), step, guided.settings)
    first = ds[list(names)].isel(time=slice(0, length)).load()
    values = {name: first[name].values.astype(np.float32) for name in names}
    require_enough(values, ds["lat"].values, ds["lon"].values, length)
    networks = -(-len(seconds) // length) + error
    cost = guided.cost(values, seconds[:length], networks, station_pressure=station_pressure)
    if announce is not None:
        announce(f"{PINN}: {cost}{'; one network is for the error, which --no-error leaves out' if error else ''}")
    return length


@lru_cache(maxsize=2)
def _opened(source: str) -> xr.Dataset:
    return store.open_store(source, verify="none")


def _names(ds: xr.Dataset, requested: Sequence[str] | None) -> tuple[str, ...]:
    available = tuple(name for name in LIFTED if name in ds)
    if requested is None:
        if not available:
            raise DataError(
                "the store has none of the variables that can be lifted", code="SPDE-D087", where=str(LIFTED)
            )
        return available
    unknown = [name for name in requested if name not in available]
    if unknown or not requested:
        what = f"`{', '.join(unknown)}` cannot be lifted from this store" if unknown else "no variable is named"
        raise UsageError(
            f"{what}; it has {', '.join(available)}",
            code="SPDE-D087",
            do=f"--variables {','.join(available)}",
        )
    return tuple(dict.fromkeys(requested))


def _with_altitudes(ds: xr.Dataset, model: Elevation | None) -> xr.Dataset:
    """Fill in altitudes that the store lacks from the elevation model, where there is one."""
    unknown = ~np.isfinite(ds["alt"].values)
    if not unknown.any() or model is None:
        return ds
    logger.warning("%d stations without altitude take that of %s", int(unknown.sum()), model.name)
    filled = np.where(unknown, model.at(ds["lat"].values, ds["lon"].values), ds["alt"].values)
    return ds.assign_coords(alt=("station", filled, dict(ds["alt"].attrs)))


def _compare_relief(model: Elevation, stations: Places) -> None:
    """Warn of an elevation model that does not lie where the stations stand: in feet, of depths, or of a flat sea."""
    apart = np.abs(model.at(stations.lat, stations.lon) - stations.alt)[model.covers(stations.lat, stations.lon)]
    if apart.size >= _FEWEST_COMPARED and np.median(apart) > _FAR_RELIEF:
        logger.warning("%s lies %.0f m from the altitudes of the stations, in the middle of %d: is it in metres above "
                       "the sea?", model.name, float(np.median(apart)), apart.size)  # fmt: skip


def _stations(
    ds: xr.Dataset, names: Sequence[str], sample: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Find the stations that have an altitude and ever report: their indices, and the names of the others."""
    seen = np.isfinite(sample).any(axis=(0, 2))
    for station in np.flatnonzero(~seen):
        # No value in the sample: the whole record decides.
        column = ds[list(names)].isel(station=int(station)).load()
        seen[station] = any(np.isfinite(column[name].values).any() for name in names)
    seen &= np.isfinite(ds["alt"].values)
    dropped = [str(name) for name in ds["station"].values[~seen]]
    if dropped:
        place = locate(stations=dropped, out_of=ds.sizes["station"])
        logger.warning("left out because they never report or have no altitude: %s", place)
    if not seen.any():
        raise DataError("no station ever reports", code="SPDE-D070", do="stationpde data info STORE")
    return np.flatnonzero(seen), dropped


def _sloped(lift: StationLift, names: Sequence[str], station_pressure: bool) -> tuple[str, ...]:
    if not LIFT_METHODS[lift.settings.method].detrends:
        return ()
    return tuple(name for name in names if name in PRIORS and (name != "p" or station_pressure))


def _template(
    ds: xr.Dataset, grid: GridSpec, altitude: Any, names: Sequence[str], lift: StationLift, terrain: str | None
) -> xr.Dataset:
    station_pressure = PressureKind.of(ds.attrs) != PressureKind.SEA_LEVEL
    template = xr.Dataset(
        coords={
            "time": ("time", ds["time"].values, dict(ds["time"].attrs)),
            "lat": ("lat", grid.lat, cf_attributes("lat")),
            "lon": ("lon", grid.lon, cf_attributes("lon")),
            "alt": (("lat", "lon"), altitude, cf_attributes("alt")),
        }
    )
    shape = (ds.sizes["time"], *grid.shape)
    for name in names:
        about = {**cf_attributes(name), "ancillary_variables": name + COVERAGE}
        template[name] = (("time", "lat", "lon"), np.broadcast_to(np.float32(np.nan), shape), about)
        share = {"units": "1", "long_name": f"share of the stations' weight behind {name}"}
        template[name + COVERAGE] = (("time", "lat", "lon"), np.broadcast_to(np.float32(np.nan), shape), share)
    for name in _sloped(lift, names, station_pressure):
        about = {"units": f"{'1' if name == 'p' else cf_attributes(name)['units']} m-1"}
        what = "ln p reduced to the sea" if name == "p" else name
        about["long_name"] = f"vertical slope of {what} that the lift took out and put back"
        template[name + SLOPE] = (("time",), np.broadcast_to(np.float64(np.nan), shape[:1]), about)
    template["station"] = ("station", ds["station"].values.astype(str))
    for name in ("lat", "lon", "alt"):
        template[f"station_{name}"] = ("station", ds[name].values, cf_attributes(name))
    template.attrs = {
        **{k: v for k, v in ds.attrs.items() if k in ("source", "reader", "step_seconds", "pressure_kind", "history")},
        "method": lift.settings.method,
        "lift_settings": json.dumps(asdict(lift.settings)),
        "grid": json.dumps(grid.to_dict()),
        "terrain": terrain or "inverse-distance mean of the stations' altitudes",
        "station_altitude_range": list(lift.altitude_range),
    }
    return template


def _block_length(stations: int, cells: int, variables: int) -> int:
    """Choose the number of moments in a block: as many as memory allows, aligned with the chunks of a station store."""
    fit = max(1, _BLOCK_BYTES // (4 * variables * (stations + 2 * cells)))
    if fit >= _CHUNK:
        return min(fit // _CHUNK, 4) * _CHUNK
    return next(length for length in range(fit, 0, -1) if _CHUNK % length == 0)


@contextmanager
def _executor(workers: int | None, scheduler: str | None, job: LiftJob) -> Iterator[tuple[Executor, Any]]:
    """Provide what runs the blocks (threads, a local dask cluster, or an existing one) and the job as it expects it."""
    if not workers and not scheduler:
        # A network has all threads of torch to itself.
        with ThreadPoolExecutor(max_workers=1 if job.pinn is not None else os.cpu_count() or 1) as threads:
            yield threads, job
        return
    import dask
    from distributed import Client, LocalCluster

    # Workers may be lost many times in a long job; their blocks are repeated by others. The weights of a large grid are
    # part of the job, which dask would warn of.
    lasting = {"distributed.scheduler.allowed-failures": 100, "distributed.admin.large-graph-warning-threshold": "1 TB"}
    with dask.config.set(lasting):
        cluster = None
        if not scheduler:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                processes=True,
                silence_logs=logging.ERROR,
            )
        try:
            with _connected(Client, cluster or scheduler) as client:
                # The job is a task and not scattered data: if the last worker that holds it is lost, it is made again.
                yield client.get_executor(retries=100, pure=False), client.submit(_same, job, pure=False, retries=100)
        finally:
            if cluster is not None:
                cluster.close()


def _same(job: LiftJob) -> LiftJob:
    return job


def _connected(client: Any, where: Any) -> Any:
    try:
        return client(where, set_as_default=False, timeout="20s")
    except (OSError, ValueError) as problem:
        raise ResourceError(
            f"no dask scheduler answers at {printable(where)}: {problem}",
            code="SPDE-D066",
            do="start one with `dask scheduler`, or use --workers N",
        ) from problem


# The name of before, which the documentation of earlier versions shows.
lift_store = lift_to_store
