"""The CEL rules of a schema, applied: which of them an object breaks."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.causes import Cause
from mooring.apiserver.custom.structure import Structure

Json = dict[str, Any]


class Rules:
    def broken(self, new: Json, old: Any) -> list[Cause]:
        return []


def rules_of(structure: Structure) -> Rules | None:
    return None
