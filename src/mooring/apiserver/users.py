"""Users, and the signing and checking of their tokens."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec


class RequestUser(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


OWNER = RequestUser("mooring-admin", ("system:masters", "system:authenticated"))
"""The user of everybody who has the server's token. Every user may do everything: there are no roles."""


class Tokens(Protocol):
    """Signs claims, and verifies its own signatures."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A JSON Web Token."""

    def claims(self, token: str) -> dict[str, Any] | None:
        """A token's claims; None for one that was not signed here. Times are not checked."""


class LateTokens:
    """Tokens by a signer that `make` gives with the first one."""

    def __init__(self, make: Callable[[], Tokens]) -> None:
        self._make = make

    @functools.cached_property
    def _signer(self) -> Tokens:
        return self._make()

    def sign(self, claims: Mapping[str, Any]) -> str:
        return self._signer.sign(claims)

    def claims(self, token: str) -> dict[str, Any] | None:
        return self._signer.claims(token)
