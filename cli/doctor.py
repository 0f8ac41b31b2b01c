"""`stationpde doctor`: what is installed, what works here, and what to do about the rest."""

from __future__ import annotations

from cli._console import console, shown

__all__ = ["doctor"]


def doctor() -> None:
    """Show what is installed and whether it works here.

    Versions, machine, compiler, kernel cache, plug-ins, and a trial of the fused backend.

    Example: stationpde doctor --json
    """
    from stationpde import diagnosis

    found = diagnosis.diagnose()
    for section, facts in found.sections.items():
        console.text(section if facts else f"{section}: none")
        for label, value in facts.items():
            console.text(f"  {label:<16}{shown(value)}")
    for problem in found.problems:
        console.text(f"problem: {problem.what}")
        console.text(f"  do    {problem.do}")
    if not found.problems:
        console.text("no problem found")
    console.result(found.to_json())
