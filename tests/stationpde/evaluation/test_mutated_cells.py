"""Finished cells with one change: a typed error, or sums and scores that are the same."""

import json
from pathlib import Path

import numpy as np
import pytest

from mutations import mutated, outcome
from stationpde.evaluation.cells import read_cell

CELLS = Path(__file__).parents[3] / "benchmarks" / "cells"
NAMES = ("w2k-like-24h-default-seed0", "w2k-like-24h-persistence", "w2k-like-24h-blend-seed0")


def short(content: dict[str, object]) -> dict[str, object]:
    """Return a cell without most of its stations, so that changes meet the other parts as often."""
    sums = content["statistics"]
    rows = np.array(sums["station"])
    merged = np.concatenate([rows[:, :3], rows[:, 3:].sum(axis=1, keepdims=True)], axis=1)
    counts = merged[0].round().astype(int).tolist()
    days = np.array(sums["day"])
    whole = days.sum(axis=1, keepdims=True)
    content["data"]["altitude_m"] = content["data"]["altitude_m"][:4]
    whole_sums = [whole[0].round().astype(int).tolist(), *whole[1:].tolist()]
    fewer = {"stations": sums["stations"][:4], "station": [counts, *merged[1:].tolist()], "day": whole_sums}
    return {**content, "statistics": {**sums, **fewer}}


def mutate(folder: Path, name: str, seeds: range) -> None:
    path = folder / f"{name}.json"
    content, refused = short(json.loads((CELLS / path.name).read_text())), 0
    path.write_text(json.dumps(content))
    before = read_cell(path)
    for seed in seeds:
        changed, change = mutated(content, seed)
        path.write_text(json.dumps(changed))
        problem, after = outcome(lambda: read_cell(path), change)
        if problem is not None:
            assert problem.code == "SPDE-B012", change
            refused += 1
        else:
            assert np.allclose(after.statistics.total, before.statistics.total, rtol=1e-5), change
            assert after.about["scores"].keys() == before.about["scores"].keys(), change
            for variable, score in before.about["scores"].items():
                assert after.about["scores"][variable]["mse"] == pytest.approx(score["mse"], rel=1e-5), change
    assert refused > len(seeds) // 3


@pytest.mark.parametrize("name", NAMES[:1])
def test_20_mutations_of_a_cell_are_refused_or_leave_its_scores(tmp_path, name):
    mutate(tmp_path, name, range(20))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_500_mutations_of_a_cell_are_refused_or_leave_its_scores(tmp_path, name):
    mutate(tmp_path, name, range(1000, 1500))
