"""Text that has to fit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_HIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """The text for one line of a terminal: what would move its cursor, end its line or turn its letters round is
    written out.

    Others have their say in errors, names and labels: a driver, or whoever may write an object.
    """
    return text if text.isprintable() else _HIDDEN.sub(lambda found: repr(found[0])[1:-1], text)


def visible_lines(text: str) -> str:
    """A text of ours that has several lines, each as `visible` makes it."""
    return "\n".join(map(visible, text.split("\n")))


def shortened(text: str, bytes_max: int) -> str:
    """The text in at most so many bytes of valid UTF-8; what was cut ends in `...`. bytes_max: at least 3."""
    assert bytes_max >= 3
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= bytes_max:
        return encoded.decode("utf-8")
    return encoded[: bytes_max - 3].decode("utf-8", "ignore") + "..."


def quoted(text: str) -> str:
    """The text in double quotes, as Go's %q has it for plain text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def meant(typed: str, names: Iterable[str]) -> str:
    """The question after a name that does not exist: those with the fewest typing errors, if these are few. "dve" has
    one compared with dev, and three with driver.
    """
    away = {name: edit_distance(typed, name) for name in names}
    fewest = min(away.values())
    near = [name for name, count in away.items() if count == fewest]
    return f" (did you mean {' or '.join(near)}?)" if fewest <= max(1, len(typed) // 3) else ""


def edit_distance(typed: str, meant: str) -> int:
    """The number of typing errors between two words: letters that are missing, superfluous, wrong, or swapped with
    their neighbour.
    """
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for number, letter in enumerate(typed, 1):
        before, last, row = row, before, [number]
        for at, wanted in enumerate(meant, 1):
            cost = min(before[at] + 1, row[at - 1] + 1, before[at - 1] + (letter != wanted))
            if number > 1 and at > 1 and letter == meant[at - 2] and typed[number - 2] == wanted:
                cost = min(cost, last[at - 2] + 1)
            row.append(cost)
    return row[-1]
