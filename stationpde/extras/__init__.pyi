from .file import EXTRAS as EXTRAS
from .file import extras_of as extras_of
from .fit import fit_extras as fit_extras
from .forecasts import ExtraForecaster as ExtraForecaster
from .forecasts import ExtraForecasts as ExtraForecasts
from .kinds import bounded as bounded
from .kinds import sunlight as sunlight
from .record import extra_source as extra_source
