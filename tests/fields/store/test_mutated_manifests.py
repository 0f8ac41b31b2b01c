"""Manifests of valid stores with one change and an intact seal: a typed error or the same data, and nothing else."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import pytest

from fields import store
from fields.store.manifest import MANIFEST, _canonical, _fingerprint
from mutations import mutated, outcome


@pytest.fixture
def written(tmp_path, stations) -> Path:
    return store.write_store(stations, tmp_path / "x.zarr")


def seal(path: Path, body: dict[str, object], fingerprint: bool) -> None:
    """Write a manifest with its hash, and with the fingerprint of what it lists where there is one."""
    if fingerprint:
        with suppress(KeyError, TypeError, AttributeError):
            body["fingerprint"] = _fingerprint(body["kind"], body["arrays"], body["files"])
    (path / MANIFEST).write_bytes(_canonical({**body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()}))


def mutate(path: Path, seeds: range, fingerprint: bool) -> None:
    body = json.loads((path / MANIFEST).read_bytes())
    del body["sha256"]
    expected, refused = store.open_store(path).load(), 0
    for seed in seeds:
        changed, change = mutated(body, seed)
        seal(path, changed, fingerprint)
        problem, opened = outcome(lambda: store.open_store(path).load(), change)
        assert opened.identical(expected) if problem is None else problem.code.startswith("SPDE-D05"), change
        refused += problem is not None
        store.verify_store(path)
    assert refused > len(seeds) // 2


@pytest.mark.parametrize("fingerprint", [False, True])
def test_20_mutations_of_a_sealed_manifest_are_refused_or_change_nothing(written, fingerprint):
    mutate(written, range(20), fingerprint)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("first", "fingerprint"), [(1000, False), (2000, False), (3000, True)])
def test_1000_mutations_of_a_sealed_manifest_are_refused_or_change_nothing(written, first, fingerprint):
    mutate(written, range(first, first + 1000), fingerprint)
