"""One call to a driver that has ended, with what can be seen of its effects."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from google.protobuf.message import Message

from mooring.conform.book.rule import Breach, Rule
from mooring.conform.book.subject import named_by
from mooring.csi.driver import Rpc
from mooring.csi.errors import NON_FINAL, DriverError
from mooring.wire.grpc.codes import Code


class Place(msgspec.Struct, frozen=True):
    """A path on a node after a call. is_mount: something is mounted there; readonly: so that nobody writes through it.

    kind: `folder`, `file`, `device`, "" where there is nothing. elsewhere: the points of mounts that came since the
    call began. covers: something was mounted there when the call began, and one mount more is there now.
    """

    kind: str
    is_mount: bool = False
    readonly: bool = False
    elsewhere: tuple[str, ...] = ()
    covers: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """request, and response or error, as they went over the wire. where: the node that was called, "" for the
    controller. republished: the driver's CSIDriver asks for repeated calls that renew what a pod sees.

    alone: no other call changed the same thing meanwhile. limit_s: its deadline. began_s, ended_s: as the watcher's
    `now` tells the time; None where it has none. target, staging: the paths that a call to a node named;
    None where nobody can see them.
    """

    rpc: Rpc[Any, Any]
    request: Any
    response: Any = None
    error: DriverError | None = None
    where: str = ""
    alone: bool = True
    republished: bool = False
    limit_s: float = 0.0
    began_s: float | None = None
    ended_s: float | None = None
    target: Place | None = None
    staging: Place | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def code(self) -> int:
        return Code.OK if self.error is None else self.error.code

    @property
    def refused(self) -> bool:
        """The driver said no for good: it is not at work on it any more, and the same call will be told the same."""
        return self.error is not None and self.error.code not in NON_FINAL and not self.error.unsent

    def breaks(self, rule: Rule, found: str) -> Breach:
        about = named_by(self.rpc, self.request)
        return Breach(rule, self.rpc.name, "" if about is None else str(about), found, self.where, self.request)

    def is_of(self, *attributes: str) -> bool:
        """True for one of these calls, by their methods' names."""
        return self.rpc.attribute in attributes


def same_request(one: Message, other: Message) -> bool:
    """True for requests that ask for the same. Secrets may have been changed meanwhile."""
    return _without_secrets(one) == _without_secrets(other)


def _without_secrets(request: Message) -> Message:
    if "secrets" not in request.DESCRIPTOR.fields_by_name:
        return request
    copy = type(request)()
    copy.CopyFrom(request)
    copy.ClearField("secrets")
    return copy
