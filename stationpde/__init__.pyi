import fields as fields

from .api import StationPDE as StationPDE

__version__: str
