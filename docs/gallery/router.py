"""The router at work: who carries the forecast of what, where and how far ahead.

The model of `relief.py` answers with two fields at every step, one from the equations and one from the data-driven
branch, and mixes them cell by cell. Here are its weights: on the map, and as means over the map hour by hour.
"""

from pathlib import Path

import numpy as np

import pictures
import relief
from stationpde import StationPDE
from stationpde.plots import CHANNELS, COLOURS, Frame, draw_frame, sheet

SHOWN = ("u", "theta")


def draw(weights, frame: Frame, out: Path) -> Path:
    """Draw the weights of the data-driven branch (``data_weight`` of a forecast field)."""
    width, height = frame.size(3.6)
    reach = max(0.05, float(abs(weights - 0.5).max()))
    middle = int(abs(weights - 0.5).mean(("channel", "lat", "lon")).argmax("time"))
    size, ratios = (2 * width + 5.4, height + 0.9), (width, width, 4.4)
    with sheet(out, 1, 3, size, width_ratios=ratios) as (figure, axes):
        maps, lines = axes[0, :2], axes[0, 2]
        for place, name in zip(maps, SHOWN):
            field = weights.sel(channel=name).isel(time=middle).values
            drawn = draw_frame(place, frame, field, name, (0.5 - reach, 0.5 + reach), colours="PuOr_r")
            place.set_title(f"{CHANNELS[name]}, {float(weights.lead[middle]):g} h ahead")
        bar = figure.colorbar(drawn, ax=list(maps), orientation="horizontal", aspect=40, pad=0.04)
        bar.set_label("weight of the data-driven branch; the rest is the equations'")
        for name in weights.channel.values:
            mean = weights.sel(channel=name).mean(("lat", "lon"))
            lines.plot(weights.lead, mean, marker="o", ms=3.5, color=COLOURS[name], label=CHANNELS[name])
        lines.axhline(0.5, lw=0.8, ls=":", color="#51606e")
        lines.set(xlabel="hours ahead", xticks=np.arange(0, weights.lead.max() + 1, 6))
        lines.set_title("mean over the map")
        lines.legend(loc="best")
    return pictures.smaller(out)


def main(out: Path | None = None, *, backend: str = "auto", run: Path | None = None, steps: int = 30) -> Path:
    """Train or take the model, forecast and draw; return where the picture is."""
    where = run or Path("out/gallery/relief")
    moment, ground = relief.forecast(where, steps=steps, backend=backend)
    fields = StationPDE.load(where).field(relief.observations(), at=np.datetime64(moment.issue_time, "s"))
    return draw(fields["data_weight"], Frame(ground), out or Path("out/router.png"))


if __name__ == "__main__":
    pictures.command(main, __doc__)
