"""The operators: one physical process per file, each registered when this package is imported."""

from . import advection as _advection
from . import diffusion as _diffusion
