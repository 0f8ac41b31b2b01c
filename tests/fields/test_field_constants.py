"""The constants of `fields` are those of `pde_ops`: neither may import the other, so a test compares them."""

import pytest

from fields import constants as ours
from pde_ops import constants as theirs


@pytest.mark.parametrize("name", ours.__all__)
def test_a_constant_has_the_same_value_on_both_sides(name):
    assert getattr(ours, name) == float(getattr(theirs, name))
