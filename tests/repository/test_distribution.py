"""What is published: a wheel and a source archive that build, install into an empty place and run from anywhere."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pde_ops", "fields", "stationpde", "cli")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A source archive, and the wheel made of what the archive holds."""
    where = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "-o", str(where), str(ROOT)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return where


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """An environment with the wheel, and this one's other packages, but not this repository."""
    where = tmp_path_factory.mktemp("empty")
    venv.create(where, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(where)}))
    # `--python` and not `--prefix`: the latter would first uninstall this environment's own copy.
    python = str(where / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*install, *map(str, built.glob("*.whl"))], check=True, capture_output=True)
    # A path named in a .pth file is searched last, and the .pth files inside it are not followed.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return where


def python(environment: Path, script: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a script with the interpreter of an environment, far from this repository."""
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    line = [str(environment / "bin" / "python"), "-c", script, *words]
    return subprocess.run(line, cwd=cwd, env=clean, capture_output=True, text=True, check=False)


def command(environment: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python(environment, "from cli.main import main; main()", *words, cwd=cwd)


def test_the_wheel_holds_the_packages_their_types_and_presets_and_no_tests(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == set(PACKAGES)
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    assert any(name.startswith("stationpde/config/presets/") for name in names)
    assert any(name.startswith("fields/readers/maps/") for name in names)


def test_the_source_archive_holds_what_a_packager_needs(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "Makefile"} <= names
    assert any(name.startswith("tests/") for name in names)


def test_the_installed_package_is_the_wheel(environment, tmp_path):
    script = "import stationpde, fields, cli, pde_ops; print(*(m.__file__ for m in (stationpde, fields, cli, pde_ops)))"
    outcome = python(environment, script, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert all(Path(file).is_relative_to(environment) for file in outcome.stdout.split())


def test_the_demo_runs_from_outside_the_repository(environment, tmp_path):
    outcome = command(environment, "demo", "--output", "demo", cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000


def test_the_doctor_finds_no_problem(environment, tmp_path):
    outcome = command(environment, "doctor", cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "no problem found" in outcome.stdout


def test_installed_distributions_do_not_contradict_each_other():
    outcome = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize("extra", ["dev", "export", "tensorboard"])
def test_what_an_extra_asks_for_can_be_had_together(built, extra):
    # Without an index: what the development environment holds must satisfy the wheel as it is published.
    wheel = next(built.glob("*.whl"))
    install = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", f"{wheel}[{extra}]"]
    outcome = subprocess.run(install, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert "does not provide the extra" not in outcome.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_a_shell(environment, tmp_path, shell, monkeypatch):
    # `--show-completion` prints the same for the shell it is typed in; here there is none.
    monkeypatch.setenv("_STATIONPDE_COMPLETE", f"source_{shell}")
    outcome = command(environment, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "_STATIONPDE_COMPLETE=complete_" in outcome.stdout
