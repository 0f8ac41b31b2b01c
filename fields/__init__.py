"""Station observations as fields: import it as ``from stationpde import fields``."""

# Read by `stationpde/__init__.py` to tell this package from an unrelated one of the same name.
PROJECT = "StationPDE"
