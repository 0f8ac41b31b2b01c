"""From ``results.json`` to the page ``docs/benchmarks.md``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["page"]

TITLE = """# Benchmarks

<!-- Written by `python -m benchmarks`; edit benchmarks/render.py instead. -->
"""
HEAD = """
One Euler step of the five-field surface system (upwind transport, diffusion, rotation, friction, condensation, three
closures) on a latitude-longitude grid, float32, one thread. Variants take turns in one process; process CPU time is
counted; compared is {compared}. *Eager* is the faster of `slices` and `roll`, the forms one writes
first; *tuned eager* is the fastest of those and `faces`, which shares every difference between neighbours. All three
are written by hand in `pde_ops/benchmarking/eager_step.py` and share nothing with the operators. *Bound* is a triad
that moves the same 13 floats a cell. Repeat it with `make bench`, or `stationpde ops bench` for the first table alone.
"""


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    step = results.get("pde_step")
    if step is None:
        parts = [TITLE, _machine(results, {"quick": False})]
    else:
        head = TITLE + HEAD.format(compared=step["compared"])
        parts = [head, _machine(results, step), _ratios(step), _per_cell(step), _others(step), _start(step)]
    if "thermo" in results:
        parts.append(_thermo(results["thermo"]))
    for name, render in (("training", _training), ("inference", _inference)):
        if name in results:
            parts.append(render(results[name]))
    for name, title in (("lift", "Lift"), ("ingest", "Ingest")):
        if name in results:
            parts.append(f"## {title}\n\n{_table(['figure', 'value'], _flat(results[name]))}")
    return "\n".join(parts)


def _flat(values: dict[str, Any], prefix: str = "") -> list[list[str]]:
    """Return every figure of a section, one a row."""
    rows: list[list[str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, dict):
            rows += _flat(value, f"{name}, ")
        elif isinstance(value, float):
            rows.append([name, f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"])
        else:
            rows.append([name, "yes" if value is True else "no" if value is False else str(value)])
    return rows


def _machine(results: dict[str, Any], step: dict[str, Any]) -> str:
    at = results["machine"]
    units = ", ".join(at["vector_units"]) or "no vector units known"
    versions = ", ".join(f"{name} {version}" for name, version in at["packages"].items())
    quick = " This was a `--quick` run: a look, not a measurement." if step["quick"] else ""
    load = f" Load average at the start: {step['load_average']}." if "load_average" in step else ""
    return f"Machine: {at['processor']} ({units}), {at['cores']} cores; {at['compiler']}; {versions}.{load}{quick}\n"


def _ratios(step: dict[str, Any]) -> str:
    rows = []
    lines = [
        ("forward, times faster than eager", "forward_vs_eager", "≥ 12"),
        ("forward + backward, times faster than eager", "forward_backward_vs_eager", "≥ 15"),
        ("forward, times faster than tuned eager", "forward_vs_tuned_eager", ""),
        ("forward + backward, times faster than tuned eager", "forward_backward_vs_tuned_eager", ""),
        ("forward, times the bound", "forward_vs_bound", "≤ 4 and ≤ 3"),
        ("forward, times faster than Devito's raw kernel", "vs_devito_per_cell", "> 1"),
        ("forward, times faster than GT4Py's tuned kernel", "vs_gt4py_per_cell", "> 1"),
        ("forward, times faster than py-pde (numba, float64)", "vs_py_pde_per_cell", "≥ 20"),
        ("forward, against the 350 ns a cell quoted for WeatherGFT", "vs_weathergft_quoted", "≥ 30"),
    ]
    sizes = list(step["forward_vs_eager"])
    for label, key, goal in lines:
        rows.append([label, *(_number(step[key], size) for size in sizes), goal])
        if key in step["range"]:
            rows.append([f"{label}, range-scaled", *(_number(step["range"][key], size) for size in sizes), ""])
    text = "## The fused step\n\n" + _table(["", *sizes, "goal"], rows)
    errors = ", ".join(f"{name} {value:.1e}" for name, value in step["gradient_errors"].items())
    return (
        text + f"\nLargest relative error of its float32 gradients against float64 autograd: {errors} (goal ≤ 1e-5).\n"
    )


def _per_cell(step: dict[str, Any]) -> str:
    columns = [(size, kind) for size in step["ns_per_cell"] for kind in ("forward", "forward_backward")]
    first = next(iter(step["ns_per_cell"].values()))
    names = list(first["forward"])
    head = [f"{size} {'forward' if kind == 'forward' else 'forward + backward'}" for size, kind in columns]
    text = "## Nanoseconds a cell\n\n"
    for scale, prefix in (("Plain step (scale `none`)", ""), ("Range-scaled step", "range_")):
        rows = []
        for name in names:
            cells = [step["ns_per_cell"][size][prefix + kind].get(name) for size, kind in columns]
            if any(cell is not None for cell in cells):
                rows.append([name, *("" if cell is None else f"{cell:.1f}" for cell in cells)])
        text += f"{scale}:\n\n{_table(['', *head], rows)}\n"
    return text


def _others(step: dict[str, Any]) -> str:
    rows = []
    for name, sizes in step["languages"].items():
        for size, line in (sizes or {}).items():
            rows.append([name, size, *(f"{line[key]:.1f}" for key in ("raw", "call", "fused")), "no"])
    for size, line in (step["py_pde"] or {}).items():
        rows.append(["py-pde", size, "", f"{line['py_pde']:.1f}", f"{line['fused']:.1f}", "no"])
    if not rows:
        return "## Other libraries\n\nNot measured in this run.\n"
    head = ["", "size", "its kernel [ns/cell]", "its call [ns/cell]", "fused call, same run [ns/cell]", "gradients"]
    text = "## Other libraries, forward step\n\n"
    return text + "Each in turns with the fused backend, whose whole Python call is counted.\n\n" + _table(head, rows)


def _start(step: dict[str, Any]) -> str:
    rows = [[name, f"{line['cold']:.1f}", f"{line['warm']:.1f}"] for name, line in step["start_seconds"].items()]
    return "## Seconds to the first gradient\n\n" + _table(["backend", "empty caches", "warm caches"], rows)


def _thermo(thermo: dict[str, Any]) -> str:
    time = thermo["microseconds"]
    return (
        "## Thermodynamics\n\n"
        f"Ψ (θ and q from T, p and relative humidity) at {thermo['values']} values: {time['torch']:.0f} µs in torch, "
        f"{time['metpy']:.0f} µs in MetPy with pint, {thermo['psi_vs_metpy']:.0f} times faster (goal ≥ 15); "
        f"largest relative difference {thermo['largest_relative_difference']:.0e}"
        + (f"; on {thermo['processor']}.\n" if "processor" in thermo else ".\n")
    )


def _training(training: dict[str, Any]) -> str:
    rows = [[f"step, times faster than eager: {n}", f"{v:.2f}", "≥ 1.3" if n == "compiled" else ""]
            for n, v in training["step_vs_eager"].items()]  # fmt: skip
    rows.append(["activations computed again: time", f"{training['recompute_time']:.2f}", ""])
    rows.append(["activations computed again: memory", f"{training['recompute_memory']:.2f}", ""])
    cold = training.get("first_compiled_step")
    if cold:
        rows.append(["first compiled step, empty caches, CPU seconds", f"{cold['cpu_seconds']:.0f}", "≤ 60"])
    shares = training["share_of_a_forward"].items()
    parts = ", ".join(f"{name.replace('_', ' ')} {100 * share:.0f} %" for name, share in shares)
    return (
        f"## Training\n\nForward and backward of {training['shape']}, one thread{_under(training)}. *Eager* steps the "
        "equations in torch; *fused* with the generated kernel; *compiled* compiles the networks as well "
        "(`train.compile`).\n\n"
        + _table(["", "", "goal"], rows)
        + f"\nWhere a forward pass spends its time, fused: {parts}.\n"
        + _training_inmet(training.get("inmet_south"))
    )


def _training_inmet(inmet: dict[str, Any] | None) -> str:
    if inmet is None:
        return ""
    models = list(inmet["milliseconds"])
    names = list(dict.fromkeys(name for model in models for name in inmet["milliseconds_of_parts"][model]))
    rows = [["**step**", *(f"**{inmet['milliseconds'][model]:.0f}**" for model in models)]]
    for name in names:
        values = [inmet["milliseconds_of_parts"][model].get(name) for model in models]
        rows.append([name.replace("_", " "), *("" if value is None else f"{value:.1f}" for value in values)])
    rows.append(["kept for the backward pass [MB]", *(f"{inmet['megabytes_kept'][model]:.0f}" for model in models)])
    for key, name in (
        ("times_as_fast", "times as fast as the version before"),
        ("times_as_fast_at_weather2k_size", "the same at Weather2K's size, without optimiser"),
        ("memory_to_before", "memory, relative to the version before"),
    ):
        if key in inmet:
            rows.append([name, *(f"{inmet[key][model]:.2f}" for model in models)])
    head = ["CPU ms", *(model.replace("_pde", " equations") for model in models)]
    about = "Below forward, backward and optimiser are the parts of the forward pass."
    return f"\n{inmet['shape']}, one thread (load average {inmet['load_average']}). {about}\n\n{_table(head, rows)}"


def _inference(inference: dict[str, Any]) -> str:
    rows = [[name.replace("_", " and "), f"{value:.2f}", "≤ 0.6" if name == "fused" else "",
             f"{inference['largest_difference_in_standard_deviations'][name]:.0e}"]
            for name, value in inference["forecast_vs_eager"].items()]  # fmt: skip
    head = ["", "time, eager = 1", "goal", "largest difference [standard deviations]"]
    return (
        f"## Inference\n\nA 24 h forecast of {inference['stations']:,} stations on one thread{_under(inference)}; "
        "eager takes "
        f"{inference['seconds']['eager']:.2f} s. `stationpde forecast` is *fused*.\n\n" + _table(head, rows)
    )


def _under(figures: dict[str, Any]) -> str:
    quick = ", a `--quick` run" if figures.get("quick") else ""
    other = "".join(f", {name} {version}" for name, version in figures.get("packages", {}).items())
    on = f"{figures['processor']}, " if "processor" in figures else ""
    return f" ({on}load average {figures['load_average']}{quick}{other})" if "load_average" in figures else ""


def _number(values: dict[str, float] | None, size: str) -> str:
    return f"{values[size]:.1f}" if values is not None and size in values else "not measured"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
