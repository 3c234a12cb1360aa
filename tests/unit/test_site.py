"""`make docs`: the site has every page, no link that leads nowhere, and nothing that comes from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
FOUR = ("for-driver-authors", "for-operators", "for-people-on-call", "for-platform-engineers")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` builds it: a warning is a failure."""
    folder = tmp_path_factory.mktemp("site")
    recipe = re.search(r"^docs:.*\n\t@\$\(BIN\)/(sphinx-build .*) site$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    words = [
        str(Path(sys.executable).parent / "sphinx-build"),
        *recipe[1].split()[1:],
        "-d",
        str(folder / "doctrees"),
        str(folder / "html"),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    return folder / "html"


def test_every_page_is_there_and_each_reader_finds_the_own_one(site: Path) -> None:
    pages = [page.relative_to(ROOT).with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    assert [] == [str(page) for page in pages if not (site / page).exists()]
    assert "docs/index.html" in (site / "index.html").read_text()
    start = (site / "docs" / "index.html").read_text()
    assert [] == [name for name in FOUR if f'href="{name}.html"' not in start]


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    loaded = re.compile(
        r"<(?:script|img|link|iframe|source)[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*\"|@import|url\([\"']?https?:"
    )
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(files) > len(FOUR)
    assert [] == [
        f"{file.relative_to(site)}: {found[0]}" for file in files for found in loaded.finditer(file.read_text())
    ]
