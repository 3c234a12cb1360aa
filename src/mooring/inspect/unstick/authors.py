"""The author of each finalizer, from managedFields. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mooring.inspect.unstick.facts import Author


def authors_of(whole: Mapping[str, Any]) -> dict[str, Author]:
    """Finalizer → its last writer, by the entries' times. whole: the object as JSON."""
    found: dict[str, Author] = {}
    for entry in whole.get("metadata", {}).get("managedFields") or ():
        author = Author(str(entry.get("manager") or "an unnamed program"), str(entry.get("time") or "an unknown time"))
        for finalizer in _finalizers(entry.get("fieldsV1")):
            if finalizer not in found or found[finalizer].at <= author.at:
                found[finalizer] = author
    return found


def _finalizers(fields: Any) -> Iterator[str]:
    """From elements like `v:"kubernetes.io/pvc-protection"`."""
    for name in ("f:metadata", "f:finalizers"):
        fields = fields.get(name) if isinstance(fields, dict) else None
    for element in fields if isinstance(fields, dict) else ():
        if element.startswith("v:"):
            try:
                value = json.loads(element[2:])
            except ValueError:
                continue
            if isinstance(value, str):
                yield value
