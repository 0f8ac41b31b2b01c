r"""Ridge regression of many targets on the same inputs, each target with its gaps, without imputation.

.. math:: w_j = \Bigl(\sum_{i \in O_j} x_i x_i^T + \lambda_j D\Bigr)^{-1} \sum_{i \in O_j} x_i y_{ij}

with :math:`O_j` the rows in which target :math:`j` was observed and :math:`D` the variances of the inputs, so that the
penalty is that of standardised inputs. Targets with the same rows share a matrix, and from one set of rows to the next
only the rows that differ are added or subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

__all__ = ["masked_ridge"]

Array = np.ndarray[Any, Any]

# Least variance of an input, in scales in which others have about 1: without it a sensor that was stuck in training
# could get any weight at no cost, and would dominate the forecast when it changes again.
_LEAST_VARIANCE = 1e-2


def masked_ridge(inputs: Array, targets: Array, penalties: Array) -> Array:
    """Fit weights ``[trial, input, target]``, float64.

    Parameters
    ----------
    inputs : ``[row, input]``, finite
    targets : ``[row, target]``, NaN where missing; a target without any value gets weights of zero
    penalties : λ ``[trial, target]``, each larger than zero
    """
    there = np.isfinite(targets)
    products = inputs.T @ np.where(there, targets, 0.0)
    weights = np.empty((len(penalties), *products.shape))
    diagonal = np.diag_indices(inputs.shape[1])
    variances = np.maximum(inputs.var(axis=0), _LEAST_VARIANCE)
    for gram, columns in _grams(inputs, there):
        for penalty in np.unique(penalties[:, columns]):
            ridge = gram.copy()
            ridge[diagonal] += penalty * variances
            factor = cho_factor(ridge, lower=True, overwrite_a=True, check_finite=False)
            solved = cho_solve(factor, products[:, columns], check_finite=False)
            for trial, alike in enumerate(penalties[:, columns] == penalty):
                weights[trial][:, columns[alike]] = solved[:, alike]
    return weights


def _grams(inputs: Array, there: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the matrix of each set of rows, and the targets that were observed in exactly these rows."""
    packed = np.packbits(there, axis=0)
    _, first, group = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    rows = np.ones(len(inputs), bool)
    gram = inputs.T @ inputs
    # In the order of the targets: a gap of many steps moves by one row from one lead to the next.
    for column in np.sort(first):
        gram = _changed(gram, inputs, rows, there[:, column])
        rows = there[:, column]
        yield gram, np.flatnonzero(group.ravel() == group.ravel()[column])


def _changed(gram: Array, inputs: Array, old: Array, new: Array) -> Array:
    """Compute the matrix of the rows ``new``, from that of ``old`` unless a new sum has fewer terms."""
    if np.count_nonzero(new) <= np.count_nonzero(old != new):
        rows = inputs[new]
        return np.asarray(rows.T @ rows)
    added, removed = inputs[new & ~old], inputs[old & ~new]
    return np.asarray(gram + added.T @ added - removed.T @ removed)
