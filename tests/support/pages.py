"""The programs and files in our documents."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str = "python") -> list[str]:
    """The page's blocks in this language, in their order. page: `driver.md`."""
    found = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert found, f"{page} has no {language}"
    return found
