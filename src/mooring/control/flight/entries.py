"""The lines of a record: what they hold in the file, and how requests and errors are written there and read back."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.csi.errors import DriverError
from mooring.kube import errors
from mooring.kube.cluster import Patch, Request, Selection
from mooring.kube.errors import ApiError

if TYPE_CHECKING:
    from google.protobuf.message import Message

FORMAT: Final = 1
"""Of the file. A reader refuses what it does not know."""

ANSWER: Final = "answer"
"""The API server has answered a request, or refused it."""
EVENT: Final = "event"
OPENED: Final = "opened"
ENDED: Final = "ended"
"""A watch: its beginning, what it shows, and its end."""
CALL: Final = "call"
"""The driver has answered a call."""
GAVE_UP: Final = "gave up"
"""Who had asked waits no more: its time was over, or it was cancelled."""
RESUMED: Final = "resumed"
BEGUN: Final = "begun"
DECIDED: Final = "decided"
DREW: Final = "drew"
WALL: Final = "wall"
RETURNED: Final = "returned"
"""The driver was away and is back."""
DRAINED: Final = "drained"
"""The work is to end: what is in hand comes to its end."""


OWN: Final = "own"
"""In place of a version: objects that nobody but the program writes."""


class Asked(msgspec.Struct, omit_defaults=True, frozen=True):
    """A request to the API server, or a call of the driver (verb: "call", resource: the RPC). body: without secrets."""

    verb: str
    resource: str
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    selection: tuple[str, str, str] = ("", "", "")
    limit: int = 0
    token: str = ""
    body: str = ""

    @property
    def place(self) -> tuple[str, ...]:
        """The object that it is about, and what is asked of it."""
        return (
            self.verb,
            self.resource,
            self.namespace,
            self.name,
            self.subresource,
            *self.selection,
            str(self.limit),
            self.token,
        )

    def __str__(self) -> str:
        what = "/".join(filter(None, (self.resource, self.namespace, self.name, self.subresource)))
        return f"{self.verb} {what} {self.body}".rstrip()


FAULT_BYTES: Final = 210
"""Of an error beside its text. Measured."""


class Fault(msgspec.Struct, omit_defaults=True, frozen=True):
    """An ApiError, or a DriverError by its gRPC code."""

    kind: str
    text: str
    reason: str = ""
    code: int = 0
    details: dict[str, Any] = {}
    retry_after_s: float | None = None
    answered: bool = False
    unsent: bool = False

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return FAULT_BYTES + len(self.text) + (len(msgspec.json.encode(self.details)) if self.details else 0)


class Entry(msgspec.Struct, omit_defaults=True, frozen=True):
    """One line. t: of the program's clock. who: the task. reads: what its clock said between this line and the next.

    what: the queue, the watch's number, the draw, the wait. shown: the decision. rv, type: of an event. last: the bookmark that ends the
    initial events.
    """

    kind: str
    t: float = 0.0
    who: str = ""
    what: str = ""
    key: str = ""
    asked: Asked | None = None
    answer: msgspec.Raw = msgspec.Raw(b"null")
    fault: Fault | None = None
    shown: str = ""
    because: str = ""
    type: str = ""
    rv: str = ""
    last: bool = False
    value: Any = None
    reads: tuple[float, ...] = ()


class CachedKind(msgspec.Struct, omit_defaults=True, frozen=True):
    """What a cache held where the record begins. A record from a program's start has none. version: `OWN` for all that are the program's
    own."""

    resource: str
    selection: tuple[str, str, str]
    version: str
    items: msgspec.Raw


class Header(msgspec.Struct, omit_defaults=True, frozen=True):
    """The first line. began_s: wall time at t = 0. whole: it begins with the program. options: of the program, by their fields.

    driver: as it introduced itself. caches: for a record that is not whole. in_flight: what nobody had answered. reads: of the clock,
    before the first line. watches: by number, what they show, for those that began before a cut.
    """

    format: int
    program: str
    version: str
    why: str
    whole: bool
    began_s: float
    written_at: str = ""
    options: dict[str, Any] = {}
    driver: dict[str, Any] = {}
    caches: tuple[CachedKind, ...] = ()
    in_flight: tuple[str, ...] = ()
    entries: int = 0
    left_out: int = 0
    watches: dict[str, tuple[str, ...]] = {}
    reads: tuple[float, ...] = ()


def asked_of(request: Request) -> Asked:
    """body: as it is sent."""
    body = request.body.body if isinstance(request.body, Patch) else request.body
    text = "" if body is None else msgspec.json.encode(body, order="sorted").decode()
    if request.kind.plural == "secrets" or request.subresource == "token":
        text = ""
    return Asked(
        request.verb.value,
        request.kind.resource,
        request.name,
        request.namespace,
        request.subresource,
        selection_of(request.selection),
        request.limit,
        request.continue_token,
        text,
    )


def selection_of(selection: Selection) -> tuple[str, str, str]:
    """With "*" for all namespaces."""
    return (
        "*" if selection.namespace is None else selection.namespace,
        selection.label_selector,
        selection.field_selector,
    )


def fault_of(error: ApiError | DriverError) -> Fault:
    if isinstance(error, DriverError):
        return Fault("DriverError", error.message, code=error.code, answered=error.answered, unsent=error.unsent)
    kind = next(
        one.__name__ for one in type(error).__mro__ if getattr(errors, one.__name__, None) is one
    )  # a server's own is one of these
    return Fault(kind, str(error), error.reason, error.status_code, dict(error.details), error.retry_after_s)


def error_of(fault: Fault) -> ApiError | DriverError:
    if fault.kind == "DriverError":
        return DriverError(fault.code, fault.text, answered=fault.answered, unsent=fault.unsent)
    kind: type[ApiError] = getattr(errors, fault.kind)
    return kind(
        fault.text, reason=fault.reason, code=fault.code, details=fault.details, retry_after_s=fault.retry_after_s
    )


def message_text(message: Message) -> str:
    """A message's bytes as the file has them."""
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()


def message_bytes(text: str) -> bytes:
    return base64.b64decode(text)
