"""`stationpde ops` lists, shows and checks what is registered, and says what went wrong when it cannot."""

import json
import sys

import pytest
import torch
from typer.testing import CliRunner

import pde_ops as po
from cli.main import app
from pde_ops import testing as operator_testing


def run(line: str):
    return CliRunner().invoke(app, line.split())


@pytest.fixture
def leaky_operator():
    """Register a third party's operator whose declaration promises what its body does not do."""

    @po.operator(
        "leaky",
        inputs={"a": "=A"},
        output="=A / s",
        latex=r"{a}^2",
        references=["Nobody (1900), Eq. 0"],
        properties={"linear_in": "a"},
        domain={"a": (0.5, 2.0)},
    )
    def leaky(a, *, grid):
        """Squares what it is given, and claims to be linear."""
        return a * a

    yield leaky
    po.operators.remove("leaky")


def test_list_names_every_operator_with_its_units():
    cards = json.loads(run("ops list --json").stdout)["operators"]
    assert [c["name"] for c in cards] == po.operators.list()
    laplacian = next(c for c in cards if c["name"] == "laplacian")
    assert laplacian["signature"] == "(a: A) → A / m**2"
    assert {"torch", "fused"} <= set(laplacian["backends"])


def test_list_takes_a_wildcard():
    result = run("ops list advection*")
    names = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert names == po.operators.list("advection*")
    assert "advection" in names


def test_a_wildcard_that_matches_nothing_is_no_error_but_says_so():
    result = run("ops list zzz*")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no operator matches 'zzz*'" in result.stderr


def test_show_gives_equation_units_reference_and_source():
    card = json.loads(run("ops show laplacian --json").stdout)
    assert card["latex"] == po.operators["laplacian"].print_latex(["a"], po.operators["laplacian"].options)
    assert card["references"] == list(po.operators["laplacian"].references)
    assert card["source"].partition(":")[0] == po.operators["laplacian"].body.__code__.co_filename
    text = run("ops show laplacian").stdout
    assert "A / m**2" in text
    assert card["references"][0] in text


def test_show_writes_markdown():
    page = run("ops show laplacian --markdown").stdout
    assert page.startswith("### laplacian\n")
    assert "| `a` | A |" in page


def test_show_prints_the_equations_of_the_model_with_the_units_of_their_symbols():
    text = run("ops show surface").stdout
    assert r"\frac{\partial \theta}{\partial t} &=" in text
    assert [line.split()[1:3] for line in text.splitlines() if line.strip().startswith("r_m ")] == [["1/d", "1.728"]]
    page = run("ops show surface --markdown").stdout
    assert page.startswith("## station-oriented surface PDE\n")
    assert "| $q$ `q` | field |" in page
    card = json.loads(run("ops show anomaly --json").stdout)
    assert list(card["equations"]) == ["u", "v", "p", "theta", "q"]
    assert {"name": "p_b", "role": "closure", "unit": "Pa", "start": ""} in card["symbols"]
    assert card["latex"].startswith("\\begin{align}")
    card = json.loads(run("ops show extended --json").stdout)
    assert {"name": "lambda_theta", "role": "closure", "unit": "1/s", "start": ""} in card["symbols"]


def test_an_unknown_name_suggests_the_nearest_and_exits_2():
    result = run("ops show laplacien --json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["do"] == "did you mean 'laplacian'?"
    assert result.stderr.startswith("error SPDE-P002: no operator 'laplacien'")


def test_check_passes_on_a_sound_operator():
    result = run("ops check friction metric_y --json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["operators"], report["failed"]) == (2, [])
    assert report["checks"] > 2


@pytest.fixture
def own_file(tmp_path):
    """Write a file with an operator that no package publishes."""
    path = tmp_path / "own_lake.py"
    path.write_text(
        "import pde_ops as po\n\n\n"
        '@po.operator("own_lake", inputs={"a": "=A", "r": "1/s"}, output="=A / s", latex="{r} {a}", '
        'references=["Nobody (1900), Eq. 0"])\n'
        'def own_lake(a, r, *, grid):\n    """A loss in proportion."""\n    return r * a\n'
    )
    yield path
    sys.path.remove(str(tmp_path))
    sys.modules.pop("own_lake", None)
    if "own_lake" in po.operators.list():
        po.operators.remove("own_lake")


def test_check_takes_a_file_of_operators_that_no_package_publishes(own_file, monkeypatch):
    seen = []
    monkeypatch.setattr(operator_testing, "check_operator", lambda op: seen.append(op.name) or [])
    result = run(f"ops check --module {own_file}")
    assert (result.exit_code, seen) == (0, ["own_lake"]), result.stderr
    assert result.stdout == "1 operator, 0 checks, 0 failed\n"


def test_a_file_without_operators_says_how_one_is_declared(own_file):
    own_file.write_text("x = 1\n")
    result = run(f"ops check --module {own_file}")
    assert result.exit_code == 2
    assert "own_lake.py declares no operator; @pde_ops.operator does" in result.stderr


@pytest.mark.parametrize(("content", "words"), [
    ("raise SystemExit(0)\n", "ends the process when it is imported"),
    ("import no_such_package_of_mine\n", "No module named 'no_such_package_of_mine'"),
])  # fmt: skip
def test_a_module_that_ends_the_process_is_no_passed_check(own_file, content, words):
    own_file.write_text(content)
    result = run(f"ops check --module {own_file}")
    assert result.exit_code in (2, 7) and words in result.stderr


@pytest.mark.parametrize("name", ["/dev/zero", "table.csv", "a-b", "no_such_module_of_mine"])
def test_what_is_no_module_is_not_advised_to_be_installed(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    result = run(f"ops check --module {name}")
    assert result.exit_code == 2 and "pip install" not in result.stderr and name in result.stderr


def test_check_fails_with_exit_code_1_and_says_which_check(leaky_operator):
    result = run("ops check leaky --json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["operators"] == 1
    assert {f["operator"] for f in report["failed"]} == {"leaky"}
    assert any("linear" in f["check"] for f in report["failed"])


def test_check_takes_wildcards_and_counts_an_operator_once(monkeypatch):
    seen = []
    monkeypatch.setattr(operator_testing, "check_operator", lambda op: seen.append(op.name) or [])
    result = run("ops check advection* advection laplacian")
    assert result.exit_code == 0
    assert seen == [*po.operators.list("advection*"), "laplacian"]


def test_check_of_an_unknown_name_exits_2_before_anything_runs(monkeypatch):
    monkeypatch.setattr(operator_testing, "check_operator", lambda op: pytest.fail("it ran"))
    assert run("ops check laplacian nosuchthing").exit_code == 2


def test_bench_gives_the_ratios_of_this_machine_under_their_name(monkeypatch):
    from pde_ops import benchmarking

    passed_on = {}
    ratios = {"forward_vs_eager": {"32x32x48": 12.5}, "gradient_error": 1e-6}
    monkeypatch.setattr(benchmarking, "pde_step_ratios", lambda **arguments: passed_on.update(arguments) or ratios)
    result = run("ops bench --quick --json")
    record = json.loads(result.stdout)
    assert record["pde_step"] == ratios
    assert record["gpu_estimates"]["basis"] == "estimate from bandwidth, not measured"
    assert passed_on == {"quick": True}
    assert "forward_vs_eager › 32x32x48" in result.stderr
    assert "estimate from bandwidth, not measured" in result.stderr and "MI300X" in result.stderr


def test_bench_knows_two_kinds_of_devices():
    result = run("ops bench --device tpu")
    assert result.exit_code == 2 and "--device is cpu or cuda, not tpu" in result.stderr


def test_kernels_are_shown_of_systems_and_of_one_backend_alone():
    assert run("ops show surface --backend fused").exit_code == 2
    result = run("ops show laplacian --backend triton")
    assert result.exit_code == 2 and "surface, anomaly, extended, upper" in result.stderr


def test_the_upper_layer_is_shown_whole_with_its_operators_and_units():
    card = json.loads(run("ops show upper --json").stdout)
    assert list(card["equations"]) == ["u", "v", "p", "theta", "q", "column"]
    symbols = {symbol["name"]: symbol for symbol in card["symbols"]}
    assert symbols["steering_share"]["start"] == "0.7" and symbols["mixing_up"]["unit"] == "1/d"
    assert symbols["volume"]["role"] == "closure" and "Sect. 2.4.1" in " ".join(card["references"])


def test_an_operator_declared_elsewhere_is_listed_with_its_owner(leaky_operator):
    card = json.loads(run("ops show leaky --json").stdout)
    assert card["owner"] == __name__
    grid = po.Grid2D.plane(3, 4, dx=1.0)
    assert torch.equal(leaky_operator(torch.full((3, 4), 2.0), grid=grid), torch.full((3, 4), 4.0))
