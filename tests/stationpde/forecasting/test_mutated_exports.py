"""Descriptions of exports with one change: refused, or the same programs, with an intact seal and without."""

import json
from pathlib import Path

import pytest

from mutations import mutated, outcome
from stationpde.errors import CorruptArtefactError
from stationpde.forecasting.export import _write_about, example_window
from stationpde.forecasting.programs import programs_of
from stationpde.forecasting.rollout import ABOUT, Rollout, read_about, seal_of
from stationpde.runs import load_run

USED = ("format", "programs", "horizon", "substeps", "sha256")


@pytest.fixture
def export(small_runs, tmp_path) -> Path:
    """A description as `export_run` writes it, of program files that nothing loads."""
    run = load_run(small_runs.first, backend="torch")
    programs = programs_of(run.model, *example_window(run.model))
    for name in programs:
        (tmp_path / f"{name}.pt2").write_bytes(name.encode())
    _write_about(run, run.model, programs, tmp_path, "pt2")
    return tmp_path


def mutate(export: Path, seeds: range, resealed: bool) -> None:
    about, refused = read_about(export), 0
    for seed in seeds:
        changed, change = mutated(about, seed)
        if resealed:
            changed["about_sha256"] = seal_of(changed)
        (export / ABOUT).write_text(json.dumps(changed))
        problem, after = outcome(lambda: read_about(export), change)
        if problem is not None:
            refused += 1
        else:
            assert {name: type(after[name]) for name in USED} == {name: type(about[name]) for name in USED}, change
            assert resealed or {name: after[name] for name in USED} == {name: about[name] for name in USED}, change
    assert refused > len(seeds) // (3 if resealed else 2)


@pytest.mark.parametrize("resealed", [False, True])
def test_20_mutations_of_an_export_are_refused_or_change_nothing(export, resealed):
    mutate(export, range(20), resealed)


@pytest.mark.slow
@pytest.mark.parametrize("resealed", [False, True])
def test_500_mutations_of_an_export_are_refused_or_change_nothing(export, resealed):
    mutate(export, range(1000, 1500), resealed)


def test_an_export_of_before_has_no_seal_and_opens(export):
    about = json.loads((export / ABOUT).read_text())
    del about["about_sha256"]
    (export / ABOUT).write_text(json.dumps(about))
    assert read_about(export) == about


def test_program_files_that_no_export_wrote_are_refused(export):
    with pytest.raises(CorruptArtefactError, match="is no exported program") as refused:
        Rollout.load(export)
    assert refused.value.code == "SPDE-T102"


def test_a_program_that_is_a_link_out_of_the_export_is_refused(export, tmp_path_factory):
    away = tmp_path_factory.mktemp("away") / "step.pt2"
    (export / "step.pt2").rename(away)
    (export / "step.pt2").symlink_to(away)
    with pytest.raises(CorruptArtefactError, match="leads out"):
        read_about(export)
