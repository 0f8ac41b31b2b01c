from .network import check_coordinates as check_coordinates
from .network import check_daily_cycle as check_daily_cycle
from .network import check_pressure_profile as check_pressure_profile
from .schema import validate as validate
from .values import Subject as Subject
from .values import check_values as check_values
from .values import sentinel_mask as sentinel_mask
from .wind import check_wind_direction as check_wind_direction
