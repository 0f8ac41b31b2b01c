"""How fast a step runs on this machine: ratios against the best that is written by hand in eager torch.

``stationpde ops bench`` calls :func:`pde_step_ratios`; the repository's ``benchmarks`` add what needs other packages.
"""

from .devices import device_ratios as device_ratios
from .devices import estimates as estimates
from .problem import Problem as Problem
from .problem import make_problem as make_problem
from .problem import surface_system as surface_system
from .ratios import SIZES as SIZES
from .ratios import pde_step_ratios as pde_step_ratios
from .timing import interleaved as interleaved
