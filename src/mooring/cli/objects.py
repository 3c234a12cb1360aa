"""The object that somebody names on a command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from mooring.base.flags import UsageError

if TYPE_CHECKING:
    from mooring.api.meta import Key


def object_named(words: Sequence[str], namespace: str, prog: str, kinds: Collection[str] = ()) -> tuple[str, Key]:
    """The kind and the key. words: `pod/web-0`, or `pod web-0`. namespace: where the words name none. Raises
    UsageError.

    kinds: those that the command takes, if not all.
    """
    from mooring.api.meta import Key
    from mooring.inspect.objects import ALIASES, NAMESPACED

    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) not in (2, 3) or not all(parts) or "/" in "".join(parts):
        raise UsageError(f"name one object as KIND/NAME, as in pod/web-0; got {' '.join(words)!r}")
    kind = ALIASES.get(parts[0].lower())
    known = kinds or dict.fromkeys(ALIASES.values())
    if kind is None or kind not in known:
        raise UsageError(f"{parts[0]!r} is no kind that {prog} knows; it knows {', '.join(known)}")
    return kind, Key((parts[1] if len(parts) == 3 else namespace) if kind in NAMESPACED else "", parts[-1])
