"""Names of what a forecast is refused for, and may be insisted on with ``--accept NAME`` or ``accept=("NAME",)``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from stationpde.errors import UsageError

__all__ = [
    "ACCEPTABLE", "BEYOND_HORIZON", "FAR_PLACES", "FOREIGN_NETWORK", "SEEN_TIMES",
    "THIN_HISTORY", "accepted_names",
]  # fmt: skip

FOREIGN_NETWORK = "foreign-network"
THIN_HISTORY = "thin-history"
BEYOND_HORIZON = "beyond-horizon"
FAR_PLACES = "far-places"
SEEN_TIMES = "seen-times"
ACCEPTABLE = (FOREIGN_NETWORK, THIN_HISTORY, BEYOND_HORIZON, FAR_PLACES, SEEN_TIMES)


def accepted_names(words: str | Iterable[str] | None) -> frozenset[str]:
    """Return the names to accept; one may be given as plain text.

    Raises
    ------
    UsageError
        For a name that is not in `ACCEPTABLE`, with the nearest that is.
    """
    listed = list(words) if isinstance(words, Iterable) and not isinstance(words, str) else [words]
    if words is None:
        return frozenset()
    for word in listed:
        if word not in ACCEPTABLE:
            near = difflib.get_close_matches(str(word), ACCEPTABLE, n=1, cutoff=0.5)
            hint = f"did you mean --accept {near[0]}? " if near else ""
            raise UsageError(
                f"nothing is refused under the name '{word}'", code="SPDE-T110",
                do=f"{hint}there are {', '.join(ACCEPTABLE)}",
            )  # fmt: skip
    return frozenset(str(word) for word in listed)
