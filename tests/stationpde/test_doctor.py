"""`doctor` finds another distribution that ships a package of ours."""

import pytest

from stationpde import doctor as diagnosis


@pytest.mark.parametrize("name", ["fields", "cli"])
def test_a_distribution_of_the_same_name_is_a_problem_with_a_mend(monkeypatch, name):
    monkeypatch.setattr(diagnosis, "packages_distributions", lambda: {name: ["stationpde", "other"]})
    problems = []
    diagnosis._names(problems)
    assert [name in problem.what and "other" in problem.what for problem in problems] == [True]
    assert "pip uninstall other" in problems[0].do


def test_alone_there_is_no_problem(monkeypatch):
    ours = {"fields": ["stationpde"], "pde_ops": ["stationpde", "pde-ops"]}
    monkeypatch.setattr(diagnosis, "packages_distributions", lambda: ours)
    problems = []
    diagnosis._names(problems)
    assert problems == []
