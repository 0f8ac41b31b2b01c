"""The gallery's models are scripts, not a package: make them importable, and run them on every CPU backend."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"


@pytest.fixture(params=["torch", "fused"])
def backend(request):
    return request.param


@pytest.fixture(scope="session")
def gallery():
    """Import a model of the gallery by name."""
    sys.path.insert(0, str(GALLERY))
    yield import_module
    sys.path.remove(str(GALLERY))
