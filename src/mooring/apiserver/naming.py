"""Names that the server makes up for whoever asks by `generateName`, and the refusal when a name is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.apiserver import api_errors
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.table import Stored
from mooring.base.randomness import Chance

_PREFIX_MAX: Final = 58
_TRIES: Final = 8


def generate(meta: Json, chance: Chance, is_taken: Callable[[str], bool]) -> None:
    """Fills in a name where only its beginning is given. It may still be a taken one, when chance will have it so."""
    prefix = meta.get("generateName", "")
    if meta.get("name") or not prefix:
        return
    for _ in range(_TRIES):
        meta["name"] = prefix[:_PREFIX_MAX] + chance.suffix()
        if not is_taken(meta["name"]):
            return


def taken(resource: Resource, meta: Json, holder: Stored) -> Exception:
    """The refusal of a name that another object has."""
    if not meta.get("generateName") or not meta["name"].startswith(meta["generateName"][:_PREFIX_MAX]):
        going = holder.whole()["metadata"].get("deletionTimestamp") is not None
        return api_errors.already_exists(resource, meta["name"], before="object is being deleted: " if going else "")
    more = ", the server was not able to generate a unique name for the object"
    return api_errors.already_exists(resource, meta["name"], more, retry_after_s=1.0)
