"""Checks of units, values, places, wind, schema and time axis, made before values enter a store."""

import lazy_loader

# `__init__.pyi` lists what other rooms may use; each name is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
