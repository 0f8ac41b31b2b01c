"""Pictures of a benchmark's errors by lead, and the section of a page that shows them beside the table."""

from __future__ import annotations

from pathlib import Path

from stationpde.evaluation.page import slug, update_page
from stationpde.evaluation.results import Results
from stationpde.evaluation.tables import markdown

__all__ = ["draw_results", "write_results_section"]


def draw_results(results: Results, folder: Path, name: str = "errors") -> dict[int, Path]:
    """Draw errors by lead, a picture ``NAME-24h.png`` for each horizon; return the paths by hours."""
    from stationpde.plots import draw_benchmark

    return {
        horizon.hours: draw_benchmark(horizon, folder / f"{name}-{horizon.hours}h.png") for horizon in results.horizons
    }


def write_results_section(results: Results, page: Path, section: str) -> None:
    """Rewrite one section of a Markdown page: the tables, and pictures in ``images`` beside the page."""
    pictures = draw_results(results, page.parent / "images", slug(section))
    update_page(page, section, markdown(results, {hours: f"images/{path.name}" for hours, path in pictures.items()}))
