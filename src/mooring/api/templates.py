"""Templates in the parameters of classes, such as `${pvc.name}`, expanded as by Go's os.Expand, so that old classes
keep their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mooring.base.errors import MooringError
from mooring.base.text import quoted

# `$$`, `$1` and the like are names of one character, as in a shell. `${}` and a `${` that is not closed vanish, any
# other lonely `$` stays.
_REFERENCE: Final = re.compile(
    r"\$(?:\{(?P<braced>[^}]*)\}|(?P<odd>\{)|(?P<special>[*#$@!?\-0-9])|(?P<plain>[A-Za-z_][A-Za-z0-9_]*))", re.ASCII
)


class InvalidTokens(MooringError):
    """A template has references that are not defined."""

    def __init__(self, tokens: list[str]) -> None:
        super().__init__(f"invalid tokens: [{' '.join(quoted(token) for token in tokens)}]")


def expanded(template: str, known: Mapping[str, str]) -> str:
    """The template with its references replaced. Raises InvalidTokens, with all of them, sorted."""
    missing: set[str] = set()

    def value(found: re.Match[str]) -> str:
        if found["odd"] is not None or found["braced"] == "":
            return ""
        name = found["braced"] or found["special"] or found["plain"]
        if name not in known:
            missing.add(name)
        return known.get(name, "")

    result = _REFERENCE.sub(value, template)
    if missing:
        raise InvalidTokens(sorted(missing))
    return result
