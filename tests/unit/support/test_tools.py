"""hack/tools/build: where a tool is, what it says of one that it does not know, and that the one built is the one
pinned.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.tools import TOOLS, tool

NAMES = sorted(path.parent.name for path in TOOLS.glob("*/go.mod"))


def build(*args: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """On a machine without Go."""
    programs = cache.parent / f"{cache.name}-programs"
    programs.mkdir()
    for name in ("bash", "awk", "cat", "cut", "dirname", "grep", "sha256sum"):
        (programs / name).symlink_to(str(shutil.which(name)))
    surroundings = {"XDG_CACHE_HOME": str(cache), "PATH": str(programs)}
    return subprocess.run(
        [TOOLS / "build", *args], env=surroundings, capture_output=True, text=True, timeout=30, check=False
    )


def test_every_tool_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """So that a new one, or a newer one, builds no other again."""
    done = build("--where", cache=tmp_path)
    places = [Path(line) for line in done.stdout.splitlines()]
    assert NAMES == sorted(place.name for place in places)
    assert len(NAMES) == len({place.parent for place in places})
    for place in places:
        assert re.fullmatch(rf"{place.name}-[0-9a-f]{{16}}", place.parent.name)
        assert place.parent.parent == tmp_path / "mooring" / "tools"
    assert [] == list(tmp_path.iterdir())


def test_a_tool_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    done = build("nobody", cache=tmp_path)
    assert (1, "") == (done.returncode, done.stdout)
    assert f"hack/tools/build: unknown tool 'nobody', known are: {' '.join(NAMES)}\n" == done.stderr


def test_without_go_it_says_which_is_needed(tmp_path: Path) -> None:
    done = build("helm", cache=tmp_path)
    assert 1 == done.returncode
    assert "hack/tools/build: Go is not installed (needed: 1.26.0 or newer)\n" == done.stderr


@pytest.mark.real
@pytest.mark.slow
def test_helm_is_the_one_that_is_pinned() -> None:
    (pinned,) = re.findall(r"\bhelm\.sh/helm/v4 (v\S+)", (TOOLS / "helm" / "go.mod").read_text())
    done = subprocess.run(
        [tool("helm"), "version", "--template={{.Version}}"], check=True, capture_output=True, text=True, timeout=30
    )
    assert pinned == done.stdout
