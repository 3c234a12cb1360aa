"""What may be asked of an object beside its own verbs: sub-resources such as /binding, and kinds that are asked and never stored.

A sub-resource is one of four:

    asks      POST of another kind that is answered and not kept: /binding, /eviction, /token
    prepare   GET, PUT and PATCH of the object itself, of which the endpoint writes one part: /resize, /finalize
    part      GET, PUT and PATCH of another kind that shows a part of the object: /scale
    connect   a door to a machine that is not there: /log, /exec

A kind that is asked is a `Resource` with an `answer`; it may stand on its own too, as the access reviews do. An answer is a
function of the call: it reads and writes through the store, and does nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mooring.api.meta import Key
from mooring.apiserver.field_errors import Cause

if TYPE_CHECKING:
    from mooring.apiserver.resource import Resource
    from mooring.apiserver.store import ObjectStore

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


OWNER = User("mooring-admin", ("system:masters", "system:authenticated"))
"""Whoever holds the server's token. Everybody who gets in may do everything: there are no roles."""


class Tokens(Protocol):
    """Signs what says who somebody is, and knows its own signature again."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A JSON Web Token."""

    def claims(self, token: str) -> Json | None:
        """What a token says; None for one that was not signed here. Nobody has looked at its times."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One question. resource, key: the object that it is about; for a kind that stands alone that kind, and a key without name.

    body: decoded by the asked kind's shape, and written to. tokens: None where nobody can sign.
    """

    store: ObjectStore
    resource: Resource
    key: Key
    body: Json
    now: float
    user: User
    dry_run: bool = False
    tokens: Tokens | None = None


Answer = Callable[[Call], Json]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Action:
    """A sub-resource beside /status. Exactly one of asks, part, prepare and connect is set.

    verbs: as discovery lists them. kind: what discovery says where `asks` doesn't; "" for the object's own.
    prepare: takes back what the endpoint may not write. validate: everything that is wrong. connect: raises.
    """

    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    asks: Resource | None = None
    part: Resource | None = None
    prepare: Callable[[Json, Json, float], None] | None = None
    validate: Callable[[Json, Json], list[Cause]] = lambda _new, _old: []
    connect: Callable[[Call], None] | None = None

    def __post_init__(self) -> None:
        ways = (self.asks, self.part, self.prepare, self.connect)
        assert sum(way is not None for way in ways) == 1, f"{self.name} is exactly one kind of sub-resource"


def done() -> Json:
    """The Status of a question that changes something and has nothing to tell."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
