"""Station observations as fields: import it as ``from stationpde import fields``.

What a notebook needs is reached from here: ``fields.open_store``, ``fields.GridSpec``, ``fields.StationToGrid``. Each
name is loaded when it is first used, so that importing the package costs nothing; modules (``fields.store``) are
reached the same way.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fields.bilinear import GridReadout
    from fields.card import data_card
    from fields.crossval import cross_validate
    from fields.errors import CorruptStoreError, DataError, FieldsError, LockedError, ResourceError, UsageError
    from fields.gridspec import GridSpec
    from fields.ingest import IngestOptions
    from fields.ingest import ingest as ingest_files
    from fields.lift import StationToGrid
    from fields.lift_methods import LIFT_METHODS, LiftSettings, StationLift, altitude_weight
    from fields.lift_store import lift_store as lift_to_store
    from fields.plots_field import draw_field
    from fields.plots_network import draw_network
    from fields.quality import check as check_quality
    from fields.readers import Reader, ReadOptions
    from fields.readout import GridToStation
    from fields.sampling import FieldStore, read_points
    from fields.schema import validate
    from fields.store import fingerprint
    from fields.store import open as open_store
    from fields.store import verify as verify_store
    from fields.store import write as write_store
    from fields.synthetic import make_network
    from fields.terrain import Elevation, station_altitude
    from fields.weights import SparseWeights

# Read by `stationpde/__init__.py` to tell this package from an unrelated one of the same name.
PROJECT = "StationPDE"

# Where each name lives. A function must not share its name with a module here: importing the module would replace it,
# hence `ingest_files` and `lift_to_store`.
_HOMES = {
    "bilinear": ("GridReadout",),
    "card": ("data_card",),
    "crossval": ("cross_validate",),
    "errors": ("CorruptStoreError", "DataError", "FieldsError", "LockedError", "ResourceError", "UsageError"),
    "gridspec": ("GridSpec",),
    "ingest": ("IngestOptions", "ingest_files=ingest"),
    "lift": ("StationToGrid",),
    "lift_methods": ("LIFT_METHODS", "LiftSettings", "StationLift", "altitude_weight"),
    "lift_store": ("lift_to_store=lift_store",),
    "plots_field": ("draw_field",),
    "plots_network": ("draw_network",),
    "quality": ("check_quality=check",),
    "readers": ("ReadOptions", "Reader"),
    "readout": ("GridToStation",),
    "sampling": ("FieldStore", "read_points"),
    "schema": ("validate",),
    "store": ("fingerprint", "open_store=open", "verify_store=verify", "write_store=write"),
    "synthetic": ("make_network",),
    "terrain": ("Elevation", "station_altitude"),
    "weights": ("SparseWeights",),
}
_NAMES = {
    name: (module, there or name)
    for module, listed in _HOMES.items()
    for name, _, there in (entry.partition("=") for entry in listed)
}

__all__ = [
    "LIFT_METHODS",
    "PROJECT",
    "CorruptStoreError",
    "DataError",
    "Elevation",
    "FieldStore",
    "FieldsError",
    "GridReadout",
    "GridSpec",
    "GridToStation",
    "IngestOptions",
    "LiftSettings",
    "LockedError",
    "ReadOptions",
    "Reader",
    "ResourceError",
    "SparseWeights",
    "StationLift",
    "StationToGrid",
    "UsageError",
    "altitude_weight",
    "check_quality",
    "cross_validate",
    "data_card",
    "draw_field",
    "draw_network",
    "fingerprint",
    "ingest_files",
    "lift_to_store",
    "make_network",
    "open_store",
    "read_points",
    "station_altitude",
    "validate",
    "verify_store",
    "write_store",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module, there = _NAMES[name]
        found = getattr(import_module(f"fields.{module}"), there)
        globals()[name] = found
        return found
    if name in _modules():
        return import_module(f"fields.{name}")
    from difflib import get_close_matches

    near = get_close_matches(name, (*_NAMES, *_modules()), 1)
    raise AttributeError(f"module 'fields' has no attribute '{name}'{f'; did you mean {near[0]}?' if near else ''}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_modules()})


def _modules() -> set[str]:
    from pkgutil import iter_modules

    return {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}
