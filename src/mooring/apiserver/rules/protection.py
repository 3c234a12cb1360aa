"""The finalizer that admission gives to what must not vanish while it is in use; a controller takes it away."""

from __future__ import annotations

from collections.abc import Callable

from mooring.apiserver.resource import Json, View


def protected_by(finalizer: str) -> Callable[[Json, View], None]:
    """An `admit` that adds this finalizer."""

    def admit(new: Json, _view: View) -> None:
        finalizers = new["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)

    return admit
