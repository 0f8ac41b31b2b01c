"""The maps of the HTML report and the drawn maps have the same colours."""

import json
import re
from pathlib import Path

import numpy as np

from stationpde import report
from stationpde.plots.maps import COLOUR_MAPS

SCRIPT = Path(report.__file__).parent / "page.js"
# The page interpolates between its stops, and red, green and blue are whole numbers of 255 there.
LARGEST_DIFFERENCE = 6


def test_the_maps_of_the_report_have_the_colours_of_the_drawn_maps():
    from matplotlib import colormaps

    palettes = re.search(r"const PALETTES = \{(.*?)\n  \};", SCRIPT.read_text(encoding="utf-8"), re.DOTALL)[1]
    stops = {name: json.loads(f"[{listed}]") for name, listed in re.findall(r"(\w+): \[(.*?)\]", palettes, re.DOTALL)}
    assert stops.keys() == COLOUR_MAPS.keys() - {"v"} and COLOUR_MAPS["v"] == COLOUR_MAPS["u"]
    assert "PALETTES.v = PALETTES.difference = PALETTES.u" in SCRIPT.read_text(encoding="utf-8")
    at = np.linspace(0.0, 1.0, 256)
    for name, colours in stops.items():
        rgb = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in colours])
        shown = np.stack([np.interp(at, np.linspace(0.0, 1.0, len(rgb)), rgb[:, c]) for c in range(3)], axis=-1)
        drawn = 255 * colormaps[COLOUR_MAPS[name]](at)[:, :3]
        assert np.abs(shown - drawn).max() < LARGEST_DIFFERENCE, name
