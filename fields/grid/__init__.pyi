from .geometry import LARGEST_LATITUDE as LARGEST_LATITUDE
from .geometry import LocalMetric as LocalMetric
from .geometry import check_places as check_places
from .geometry import great_circle as great_circle
from .geometry import middle_longitude as middle_longitude
from .geometry import unwrap_longitude as unwrap_longitude
from .gridspec import GridSpec as GridSpec
from .terrain import Elevation as Elevation
