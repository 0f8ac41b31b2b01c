"""Forecasts at stations of variables beside the state: gust, rain, radiation and other scalars of a network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
