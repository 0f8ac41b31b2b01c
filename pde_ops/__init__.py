"""Differentiable, unit-checked operators for surface PDEs, and systems composed from them.

>>> import pde_ops as po
>>> T = po.Field("T", "K")
>>> kappa = po.Positive("kappa", "km**2/hour", init=36.0)
>>> heat = po.PDESystem("heat", {T: kappa * po.ops.laplacian(T)})
"""

from . import assimilation as assimilation
from . import ops as ops
from . import stability as stability
from . import stencils as stencils
from . import units as units
from .backends import March as March
from .boundaries import Boundary as Boundary
from .boundaries import Rim as Rim
from .errors import BackendError as BackendError
from .errors import DeclarationError as DeclarationError
from .errors import DivergedError as DivergedError
from .errors import GridError as GridError
from .errors import ObservationError as ObservationError
from .errors import PdeOpsError as PdeOpsError
from .errors import PlausibilityError as PlausibilityError
from .errors import ShapeError as ShapeError
from .errors import StabilityError as StabilityError
from .errors import UnitError as UnitError
from .flows import Flow as Flow
from .flows import Rotation as Rotation
from .grid import Grid2D as Grid2D
from .integrators import integrate as integrate
from .integrators import integrators as integrators
from .operator import Operator as Operator
from .operator import operator as operator
from .operator import operators as operators
from .parameters import Coefficients as Coefficients
from .parameters import weight_decay_groups as weight_decay_groups
from .symbols import Closure as Closure
from .symbols import Field as Field
from .symbols import Positive as Positive
from .symbols import Static as Static
from .system import PDESystem as PDESystem
from .tendency import Tendency as Tendency

unit_registry = units.registry

__version__ = "0.1.0"
