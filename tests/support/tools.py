"""Finds the tools that hack/tools builds: what checks a release, and stands in for nothing."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from tests.support.layers import RELEASE_TOOLS, not_tested

TOOLS = Path(__file__).resolve().parents[2] / "hack" / "tools"


@functools.cache
def _place(name: str) -> Path:
    done = subprocess.run([TOOLS / "build", "--where", name], check=True, capture_output=True, text=True, timeout=30)
    return Path(done.stdout.strip())


def tool(name: str) -> Path:
    """The program of this name, for a running test or fixture: one that isn't there is a layer not tested."""
    path = _place(name)
    if not os.access(path, os.X_OK):
        not_tested(RELEASE_TOOLS, f"no {name}")
    return path
