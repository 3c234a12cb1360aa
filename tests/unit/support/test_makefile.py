"""What `make` offers to somebody who has just cloned the project."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def make(*words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30, check=True
    ).stdout


def test_the_list_has_the_first_steps_and_fits_80_columns() -> None:
    listed = make().splitlines()
    assert {"demo", "dev", "venv", "test"} <= {line.split()[1] for line in listed if line.startswith("  make ")}
    assert [] == [line for line in listed if len(line) >= 80]


def test_make_dev_hands_its_arguments_on() -> None:
    assert ".venv/bin/mooring dev --state ./state" in make("-n", "dev", "ARGS=--state ./state")


def test_make_venv_says_where_the_commands_are() -> None:
    assert ".venv/bin/mooring --help" in make("-n", "venv")
