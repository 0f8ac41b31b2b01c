"""Distributions about forecasts: calibrated on windows that were not trained on, wider where no station stands."""

import lazy_loader

# `__init__.pyi` lists what other rooms may use; each name is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
