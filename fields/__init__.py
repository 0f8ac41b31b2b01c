"""Station observations as fields: import it as ``from stationpde import fields``.

What a notebook needs is reached from here: ``fields.open_store``, ``fields.GridSpec``, ``fields.StationToGrid``. Each
name is loaded when it is first used, so that importing the package costs nothing; rooms (``fields.store``) are reached
the same way. `__init__.pyi` lists them all.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Any

import lazy_loader

from fields._moved import MOVED, keep_old_paths

# Read by `stationpde/__init__.py` to tell this package from an unrelated one of the same name.
PROJECT = "StationPDE"

keep_old_paths({
    "fields.card": "fields.store.card",
    "fields.crossval": "fields.lift.crossval",
    "fields.gridspec": "fields.grid.gridspec",
    "fields.lift_methods": "fields.lift.methods",
    "fields.lift_store": "fields.lift.record",
    "fields.normalize": "fields.windows.scales",
    "fields.quality": "fields.qc.control",
    "fields.readout": "fields.lift.torch_readout",
    "fields.schema": "fields.checks.schema",
    "fields.series": "fields.windows.series",
    "fields.terrain": "fields.grid.terrain",
    "fields.torch_data": "fields.windows.torch_data",
})

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ or name.startswith("_"):
        return _load(name)
    if f"fields.{name}" in MOVED:  # documented modules are reached as attributes, also under their old paths
        return import_module(f"fields.{name}")
    near = get_close_matches(name, __all__, 1)
    raise AttributeError(f"module 'fields' has no attribute '{name}'{f'; did you mean {near[0]}?' if near else ''}")
