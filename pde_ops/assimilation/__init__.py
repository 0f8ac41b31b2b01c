"""Four-dimensional variational assimilation: initial state, coefficients and sources from observations in a window.

>>> from pde_ops.assimilation import Coefficient, FourDVar, Gaussian, Points, State
>>> problem = FourDVar(step, state, window="3 hours", controls=[State({"T": Gaussian("2 K", length="50 km")})],
...                    observations=[Points("T", places, time=(hours, "hour"), values=(seen, "degC"), error="0.5 K")])
>>> estimate = problem.solve()
"""

from .check import Check as Check
from .check import check as check
from .controls import Coefficient as Coefficient
from .controls import Source as Source
from .controls import State as State
from .covariances import Diagonal as Diagonal
from .covariances import Gaussian as Gaussian
from .estimate import Estimate as Estimate
from .layout import Inputs as Inputs
from .observations import AreaMeans as AreaMeans
from .observations import Function as Function
from .observations import Points as Points
from .places import Places as Places
from .problem import FourDVar as FourDVar
from .uncertainty import Uncertainty as Uncertainty
