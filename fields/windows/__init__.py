"""Windows: a record in memory (`series`), its split and windows, climatology and scales of training, batches."""

import lazy_loader

# `__init__.pyi` lists what other rooms may use; each name is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
