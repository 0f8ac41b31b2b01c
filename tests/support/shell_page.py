"""Run what a page shows as shell: its ``sh`` blocks in order, in one folder, as typed.

What a page needs beforehand is made by ``prepare/PAGE.sh``; ``$SHARED`` is where real data lie.
Training is cut short by a function in front of the command; everything else is the command itself.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("STATIONPDE_SHARED", ROOT.parent / "shared"))

# A few steps of a small model; a page's own options stand before these, and the last of a key wins.
SHORT = (
    "train.max_steps=2", "train.epochs=1", "train.validate_windows=2", "train.batch=2", "grid.height=8",
    "model.hidden=4", "model.encoder_hidden=4", "model.head_hidden=8", "model.guide_networks=0",
    "train.threads=1",
)  # fmt: skip
SHORTER = [word for pair in SHORT for word in ("--set", pair)]

PROLOGUE = """
set -euo pipefail
stationpde() {{
  if [ "$1" = train ]; then set -- "$@" {short}; fi
  command "{python}" -m cli "$@"
}}
python() {{ command "{python}" "$@"; }}
"""


def shell_blocks(page: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def preparation(page: Path) -> str:
    script = ROOT / "tests" / "docs" / "prepare" / f"{page.stem}.sh"
    return script.read_text(encoding="utf-8") if script.exists() else ""


def needs_real_data(page: Path) -> bool:
    return "$SHARED" in preparation(page)


def typed(page: Path) -> list[list[str]]:
    """Return the words of each line that a page shows, without comments."""
    lines = "\n".join(shell_blocks(page)).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_page(page: Path, where: Path) -> subprocess.CompletedProcess[str]:
    return run_shell([preparation(page), *shell_blocks(page)], where)


def run_shell(lines: list[str], where: Path) -> subprocess.CompletedProcess[str]:
    parts = [PROLOGUE.format(short=shlex.join(SHORTER), python=sys.executable), *lines]
    script = where / "page.sh"
    script.write_text("\n".join(parts), encoding="utf-8")
    environment = {**os.environ, "SHARED": str(SHARED / "data"), "PYTHONPATH": str(ROOT), "REPOSITORY": str(ROOT)}
    return subprocess.run(
        ["bash", str(script)], cwd=where, env=environment, capture_output=True, encoding="utf-8", check=False
    )
