"""StationPDE: a surface-weather model whose physics is written as equations and learned from stations.

``from stationpde import fields`` is the documented way to the station library: ``fields`` is also the import
name of another project, and this module makes sure that the right one is found.
"""

import lazy_loader

import fields as fields

__version__ = "0.1.0"

# Another distribution called `fields` overwrites our files without a word when it is installed later.
if getattr(fields, "PROJECT", None) != "StationPDE":
    raise ImportError(
        f"`fields` at {getattr(fields, '__file__', None) or list(fields.__path__)} is not StationPDE's: "
        "another distribution of that name replaced it; run `pip uninstall fields` and then "
        "`pip install --force-reinstall --no-deps stationpde`"
    )

from fields._moved import keep_old_paths

keep_old_paths({
    "stationpde.evaluation.statistics": "stationpde.evaluation.error_sums",
    "stationpde.export": "stationpde.forecasting.export",
    "stationpde.loading": "stationpde.runs.loading",
    "stationpde.plots.redistribution": "stationpde.plots.transport",
    "stationpde.report.moment": "stationpde.forecasting.moment",
    "stationpde.report.relief": "stationpde.plots.relief",
    "stationpde.training.dry_run": "stationpde.training.estimate",
    "stationpde.training.learner": "stationpde.model.learner",
})

# The model needs torch, ``stationpde --help`` does not: `StationPDE` is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
