"""``python -m benchmarks.stations``: lift and quality control on real stations, into ``docs/station-results.md``.

Reads the INMET network from the folder of real data beside the checkout (``STATIONPDE_SHARED``), ingests it into a
temporary store and runs what ``stationpde field cv`` and ``stationpde data qc-score`` run.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from fields import store
from fields.ingest import ingest_files
from fields.lift import CrossValidation, cross_validate
from fields.qc import QualityScore, quality_report

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "station-results.md"
BLOCK_KM = 150.0  # about two typical distances between stations of this network

HEAD = """# Results on real stations

<!-- Written by `python -m benchmarks.stations`; edit benchmarks/stations.py instead. -->

INMET automatic stations of southern Brazil ({stations} stations, hourly, 2023 and 2024; Instituto Nacional de
Meteorologia, open data), as prepared in `inmet_south`. Repeat it with `python -m benchmarks.stations`, or on any
store with the commands named below.
"""

_ABOUT_WIND = """\
Wind in knots or km/h at one station is found last. Neighbours 100 km apart correlate by a quarter only, so doubled wind
looks like weather until it has lasted for days. The digits do not tell either: an instrument that reports knots rounds
them as finely as one that reports m/s. A whole network in knots is refused when its speeds are no network's, and asked
about when all of them are whole numbers.
"""


def main() -> None:
    """Measure and write the page."""
    from .__main__ import write_atomically

    write_atomically(PAGE, page(*measured()))
    print(PAGE.relative_to(ROOT))


def measured() -> tuple[CrossValidation, CrossValidation, QualityScore]:
    """Return leave-one-out scores, scores with blocks left out, and the score of quality control."""
    shared = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))
    with tempfile.TemporaryDirectory() as folder:
        ingested = ingest_files(shared / "data" / "inmet_south" / "observations.npz", Path(folder) / "inmet.zarr")
        record = store.open_store(ingested.path).load()
        return cross_validate(record), cross_validate(record, block_km=BLOCK_KM), quality_report(record)


def page(alone: CrossValidation, blocked: CrossValidation, quality: QualityScore) -> str:
    """Return the page as Markdown."""
    parts = [
        HEAD.format(stations=alone.stations),
        "## How well a lift estimates a station it has not seen\n",
        f"Root mean square error over {alone.moments} times, each station left out in turn "
        "(`stationpde field cv STORE`):\n",
        _scores(alone),
        f"The same with every station within {BLOCK_KM:g} km left out (`--block-km {BLOCK_KM:g}`):\n",
        _scores(blocked),
        "`idw` weighs by horizontal distance, `terrain_idw` is the paper's distance with altitude, `detrended` takes "
        "out the hydrostatic pressure and a fitted lapse rate first and restores them at the target's altitude.\n",
        "## What quality control finds\n",
        "Errors planted into the record, and the share that is flagged, in per cent "
        "(`stationpde data qc-score STORE`). "
        "Untouched values that the record's own faults make bad count as false alarms:\n",
        "```\n" + "\n".join(quality.lines()) + "\n```\n",
        _ABOUT_WIND,
    ]
    return "\n".join(parts)


def _scores(scores: CrossValidation) -> str:
    methods = list(next(iter(scores.rmse.values())))
    rows: list[list[Any]] = [["variable", "unit", *(f"`{m}`" for m in methods), "`detrended` against `idw`"]]
    rows.append(["---"] * len(rows[0]))
    for row, errors in zip(scores.rows(), scores.rmse.values(), strict=True):
        rows.append([*row, f"{100 * (errors['detrended'] / errors['idw'] - 1):+.1f} %"])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


if __name__ == "__main__":
    main()
