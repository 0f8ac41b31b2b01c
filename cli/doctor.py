"""`stationpde doctor`: what is installed, what works here, and what to do about problems."""

from __future__ import annotations

from cli._console import console, shown

__all__ = ["doctor"]


def doctor() -> None:
    """Show what is installed and whether it works here.

    Versions, machine, compiler, kernel cache, plug-ins, and a trial of the fused backend.

    Example: stationpde doctor --json
    """
    from stationpde.doctor import diagnose

    diagnosis = diagnose()
    for section, facts in diagnosis.sections.items():
        console.text(section if facts else f"{section}: none")
        for label, value in facts.items():
            console.text(f"  {label:<16}{shown(value)}")
    for problem in diagnosis.problems:
        console.text(f"problem: {problem.what}")
        console.text(f"  do    {problem.do}")
    if not diagnosis.problems:
        console.text("no problem found")
    console.result(diagnosis.to_json())
