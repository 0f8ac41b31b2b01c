"""What a time step can bear: Courant and diffusion numbers, limits fixed before a run, and a report on a set-up."""

from .bounds import Limits as Limits
from .bounds import limits as limits
from .couplings import wave_fields as wave_fields
from .courant import courant_number as courant_number
from .courant import diffusion_number as diffusion_number
from .courant import diffusivity_limit as diffusivity_limit
from .courant import friction_floor as friction_floor
from .courant import inverse_spacings as inverse_spacings
from .courant import rotation_growth as rotation_growth
from .courant import stable_time_step as stable_time_step
from .courant import wind_limit as wind_limit
from .modes import transport_growth as transport_growth
from .modes import transports as transports
from .spectrum import Spectrum as Spectrum
from .spectrum import growth as growth
from .spectrum import spectrum as spectrum
from .summary import StabilityReport as StabilityReport
from .summary import report as report
