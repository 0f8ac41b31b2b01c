"""A config.toml that was edited or deleted after the run began: run.json counts, and that is said."""

import logging
import re
import shutil

import pytest

from stationpde.runs import load_run


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda text: text, ""),
        (lambda text: re.sub(r"\nk = \d+", "\nk = 7", text), "was edited (lift.k) and does not count"),
        (lambda text: text + "\n[other]\nx = 1\n", "was edited (other.x)"),
        (lambda text: "k =", "not valid TOML"),
        (lambda text: None, "there is no file config.toml"),
    ],
)
def test_what_was_changed_in_it_is_told(small_runs, tmp_path, caplog, edit, said):
    run = shutil.copytree(small_runs.first, tmp_path / "run")
    text = edit((run / "config.toml").read_text())
    (run / "config.toml").unlink()
    if text is not None:
        (run / "config.toml").write_text(text)
    caplog.set_level(logging.WARNING, logger="stationpde.runs")
    assert load_run(run).model.config.lift.k == load_run(small_runs.first).model.config.lift.k
    messages = [record.getMessage() for record in caplog.records if "config.toml" in record.getMessage()]
    assert said in messages[0] and "run.json" in messages[0] if said else not messages
