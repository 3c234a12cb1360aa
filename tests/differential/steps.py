"""A request as data: what is sent, with references to what earlier steps were answered."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

REMOVED: Final = object()
"""In an edit: the value is taken away."""


@dataclasses.dataclass(frozen=True)
class Ref:
    """A part of the answer to an earlier step; None when it has none. step: its number. path: as in "metadata.uid"."""

    step: int
    path: str

    def of(self, answers: dict[int, Any]) -> Any:
        found = answers.get(self.step)
        for part in self.path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found


@dataclasses.dataclass(frozen=True)
class Edit:
    """A place in an object and what is put there. grows: also where the way to it is not there yet."""

    place: tuple[str | int, ...]
    value: Any
    grows: bool = False

    def apply(self, obj: Any) -> None:
        """Writes to the object; where the place is not there, nothing happens."""
        for part, follows in zip(self.place[:-1], self.place[1:], strict=True):
            if not _has(obj, part) and not (self.grows and _grown(obj, part, follows)):
                return
            obj = obj[part]
        last = self.place[-1]
        if isinstance(obj, dict) and isinstance(last, str):
            if self.value is REMOVED:
                obj.pop(last, None)
            else:
                obj[last] = self.value
        elif isinstance(obj, list) and isinstance(last, int) and (last < len(obj) or self.grows):
            obj[last : last + 1] = [] if self.value is REMOVED else [self.value]

    def __repr__(self) -> str:
        shown = "removed" if self.value is REMOVED else repr(self.value)
        return f"{'.'.join(map(str, self.place))} := {shown}"


def _grown(obj: Any, part: str | int, follows: str | int) -> bool:
    """Makes what is missing, where it can be."""
    new: Any = [] if isinstance(follows, int) else {}
    if isinstance(obj, dict) and isinstance(part, str):
        obj[part] = new
    elif isinstance(obj, list) and isinstance(part, int):
        obj[part:] = [new]
    else:
        return False
    return True


def _has(obj: Any, part: str | int) -> bool:
    return (isinstance(obj, dict) and obj.get(part) is not None) or (
        isinstance(obj, list) and isinstance(part, int) and part < len(obj)
    )


@dataclasses.dataclass(frozen=True)
class Step:
    """One request. number: its own in the sequence, whatever is left out of it.

    body: bytes as they are, else a JSON value, in which and in the query `Ref`s stand for what they find. live: the
    body is the object as the server has it at that moment at this path, with these edits. watches: events are read
    until they stop.
    """

    number: int
    method: str
    path: str
    query: tuple[tuple[str, Any], ...] = ()
    body: Any = None
    live: str = ""
    edits: tuple[Edit, ...] = ()
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    watches: bool = False

    def resolved_query(self, answers: dict[int, Any]) -> list[tuple[str, str]]:
        found = [(name, value.of(answers) if isinstance(value, Ref) else value) for name, value in self.query]
        return [(name, str(value)) for name, value in found if value is not None]

    def resolved_body(self, answers: dict[int, Any], live: Any) -> bytes | None:
        if self.live:
            for edit in self.edits:
                edit.apply(live)
            return _encoded(_resolved(live, answers))
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return _encoded(_resolved(self.body, answers))

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query)
        lines = [
            f"{self.number:3} {'WATCH' if self.watches else self.method} {self.path}{'?' + query if query else ''}"
        ]
        if self.content_type != JSON:
            lines.append(f"    Content-Type: {self.content_type}")
        lines += [f"    {name}: {value}" for name, value in self.headers]
        if self.live:
            lines.append(f"    {self.live} with {list(self.edits)}")
        elif self.body is not None:
            lines.append(f"    {self.body!r}" if isinstance(self.body, bytes) else f"    {_shown(self.body)}")
        return "\n".join(lines)


def _resolved(value: Any, answers: dict[int, Any]) -> Any:
    if isinstance(value, Ref):
        return value.of(answers)
    if isinstance(value, dict):
        return {name: _resolved(part, answers) for name, part in value.items()}
    if isinstance(value, list):
        return [_resolved(part, answers) for part in value]
    return value


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _shown(body: Any) -> str:
    return json.dumps(body, default=repr, ensure_ascii=False)
