"""Integrators by name: ``integrators["rk4"](tendency, dt=1800.0)`` makes a step, ``step(state, closures)`` takes it."""

from .base import Integrator as Integrator
from .base import integrators as integrators
from .euler import Euler as Euler
from .heun import Heun as Heun
from .lie import Lie as Lie
from .range_scaled_euler import RangeScaledEuler as RangeScaledEuler
from .rk4 import RK4 as RK4
from .semi_lagrangian import SemiLagrangian as SemiLagrangian
from .ssprk3 import SSPRK3 as SSPRK3
from .strang import Strang as Strang
from .trajectory import integrate as integrate
