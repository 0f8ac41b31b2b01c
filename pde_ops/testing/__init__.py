"""Tests for operators, for everybody who writes one.

>>> from pde_ops.testing import assert_operator
>>> assert_operator("laplacian")            # or the record itself

runs the whole generic suite: units (also by rescaling the base units), shapes, dtypes and devices, gradients for every
border, kinks, NaN, batches, compilation, documentation, agreement of the fused kernel, and every property that the
operator declares. It needs no test framework.

Properties an operator may declare
----------------------------------
``linear_in``
    arguments in each of which the result is linear; a tuple within the tuple is linear jointly: ``("a", ("u", "v"))``.
``annihilates``
    ``"constants"``: a constant first argument gives 0 everywhere; ``"linear"``: so does a linear one, off the border,
    on a plane.
``order``
    order of accuracy in space. The operator also gives ``limit=``, what it converges to, written on smooth functions:
    ``limit=lambda a, space: a.x.x + (a.y * space.cos).y / space.cos`` (see :class:`Smooth`). Tested on a periodic
    plane, between reflecting walls and on the sphere.
``conserves``
    kinds of border under which the sum of result x cell area is 0 to round-off.
``dissipates``
    argument whose variance the result, added as a tendency, never increases.
``components``
    ``{"x": names, "y": names}``: arguments that are components of a vector along that axis.
``parity``
    ``{"x": "even" | "odd", "y": ...}``: what a mirror image of the inputs does to the result.
``pointwise``
    True: a cell depends on the arguments in that cell alone.
``sign``, ``bounds``
    ``"nonnegative"``, ``"nonpositive"``; ``(low, high)`` of the result on the domain.
``increasing_in``, ``decreasing_in``
    arguments in which the result is monotone on the domain.
``constants``
    constants with a dimension inside the body: names in :mod:`pde_ops.constants`, or units.

That the result moves with its inputs (translation) is asked of every operator.
"""

from .manufactured import SETTINGS as SETTINGS
from .manufactured import Mesh as Mesh
from .manufactured import Setting as Setting
from .manufactured import observed_order as observed_order
from .manufactured import scheme_errors as scheme_errors
from .results import CheckResult as CheckResult
from .samples import BORDERS as BORDERS
from .smooth import Smooth as Smooth
from .smooth import Space as Space
from .suite import assert_operator as assert_operator
from .suite import check_operator as check_operator
