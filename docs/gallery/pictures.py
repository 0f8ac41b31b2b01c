"""What the gallery's scripts share: one command line, and pictures small enough for a repository."""

import argparse
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any


def blank(width: float, height: float) -> Any:
    """Return a figure that needs no screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def save(figure: Any, out: Path, *, dpi: int = 100) -> Path:
    """Write the figure as PNG with a palette of 256 colours, a third of the usual size."""
    import matplotlib.pyplot as plt
    from PIL import Image

    buffer = BytesIO()
    figure.savefig(buffer, dpi=dpi)
    plt.close(figure)
    out.parent.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(out, optimize=True)
    return out


def smaller(picture: Path, width: int = 1200) -> Path:
    """Write a picture anew with at most so many pixels across, and a palette."""
    from PIL import Image

    with Image.open(picture) as found:
        size = width, round(found.height * width / found.width)
        made = found.convert("RGB")
    if made.width > width:
        made = made.resize(size, Image.Resampling.LANCZOS)
    palette = made.quantize(256, kmeans=2)
    # Smooth colours over a whole map would fall into bands without dither; paper stays as white as its page.
    colours = [255 if value > 250 else value for value in palette.getpalette()]
    palette.putpalette(colours)
    made.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(picture, optimize=True)
    return picture


def command(main: Callable[..., Path], about: str) -> None:
    """Run a script's ``main`` from the command line and print where the picture is."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None, help="where to write the picture (PNG)")
    parser.add_argument("--backend", default="auto", help="torch, inductor, fused or auto")
    options = parser.parse_args()
    print(main(options.out, backend=options.backend))
