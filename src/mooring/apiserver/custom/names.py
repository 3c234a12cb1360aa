"""Which names a definition gets: those that no other definition of its group has got before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

Json = dict[str, Any]

_RESOURCE_NAMES: Final = (("plural", "Plural"), ("singular", "Singular"))
_KINDS: Final = (("kind", "Kind"), ("listKind", "ListKind"))
_NO_CONFLICTS: Final = ("NoConflicts", "no conflicts found")


def accepted(definition: Json, others: Iterable[Json]) -> tuple[Json, str, str]:
    """The names that the definition may have, and if not all, the reason and the message of the last conflict.

    others: definitions of the same group.
    """
    wanted, had = definition["spec"]["names"], definition["status"].get("acceptedNames") or {}
    taken = [other["status"].get("acceptedNames") or {} for other in others]
    resources = {name for names in taken for name in _resource_names(names)}
    kinds = {names.get(part, "") for names in taken for part in ("kind", "listKind")}
    got, conflicts = dict(had), [_NO_CONFLICTS]
    for part, word in _RESOURCE_NAMES:
        _take(part, word, resources, wanted, got, conflicts)
    clashes = [name for name in wanted.get("shortNames") or () if name in resources]
    if clashes:
        conflicts.append(("ShortNamesConflict", _told(clashes)))
    else:
        got["shortNames"] = list(wanted.get("shortNames") or ())
    for part, word in _KINDS:
        _take(part, word, kinds, wanted, got, conflicts)
    got["categories"] = list(wanted.get("categories") or ())
    reason, message = conflicts[-1]
    return {part: value for part, value in got.items() if value or part in ("plural", "kind")}, reason, message


def _take(part: str, word: str, used: set[str], wanted: Json, got: Json, conflicts: list[tuple[str, str]]) -> None:
    if wanted.get(part, "") in used:
        conflicts.append((f"{word}Conflict", f'"{wanted[part]}" is already in use'))
    else:
        got[part] = wanted.get(part, "")


def is_conflict(reason: str) -> bool:
    return reason != _NO_CONFLICTS[0]


def _resource_names(names: Json) -> list[str]:
    return [name for name in (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())) if name]


def _told(clashes: list[str]) -> str:
    texts = [f'"{name}" is already in use' for name in clashes]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
