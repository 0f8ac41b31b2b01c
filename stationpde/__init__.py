"""StationPDE: a surface-weather model whose physics is written as equations and learned from stations.

``from stationpde import fields`` is the documented way to the station library: ``fields`` is also the import
name of another project, and this module makes sure that the right one is found.
"""

from typing import TYPE_CHECKING, Any

import fields as fields

if TYPE_CHECKING:
    from stationpde.api import StationPDE as StationPDE

__version__ = "0.1.0"

# Another distribution called `fields` overwrites our files without a word when it is installed later.
if getattr(fields, "PROJECT", None) != "StationPDE":
    raise ImportError(
        f"`fields` at {getattr(fields, '__file__', None) or list(fields.__path__)} is not StationPDE's: "
        "another distribution of that name replaced it; run `pip uninstall fields` and then "
        "`pip install --force-reinstall --no-deps stationpde`"
    )


def __getattr__(name: str) -> Any:
    """`StationPDE`, imported when it is first asked for: the model needs torch, ``stationpde --help`` does not."""
    if name == "StationPDE":
        from stationpde.api import StationPDE

        return StationPDE
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
