"""The recorder of one program: records what its ports and its order report, and keeps the latest in a ring."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from mooring.api.meta import ApiStruct, Kind
from mooring.base.clock import Clock
from mooring.control.decision import Decision
from mooring.control.flight import entries
from mooring.control.flight.ring import ENTRY_BYTES, Note, Ring
from mooring.control.flight.stripping import gives_token, holds_secrets, stripped_answer
from mooring.control.order import Unheard
from mooring.csi.errors import DriverError
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import EventType, Page, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError

if TYPE_CHECKING:
    from google.protobuf.message import Message

K = TypeVar("K", bound=Hashable)

BYTES_MAX: Final = 8 * 2**20
DECISION_BYTES: Final = 600
"""A decision with its actions, beside what it shares with others. Measured."""
MESSAGE_BYTES: Final = 4
"""Of memory for each byte that a message has on the wire. Measured."""
OBJECT_BYTES: Final = 3
"""Of memory for each byte that an object has as JSON. Measured: 3.2 to 3.4."""
CHANGED_BYTES: Final = 96
"""Of a key whose object has changed. Measured."""
WATCHES_MAX: Final = 512
FAILING_MAX: Final = 10_000
"""Keys of which it is known since when they fail."""
_task: Final[Callable[[], Any]] = asyncio.current_task
"""What a port does happens in a task."""
_encode: Final = msgspec.json.Encoder().encode
UNREADABLE: Final = b"null"


class Recorder(Unheard):
    """An `Order` that only hears. clock: the program's. bytes_max: of what it keeps.

    troubled: called with a text when a key has failed for stuck_s (0: never), again with each further failure of it.

    It costs the program no await, no draw and no request: what it does is the same with it and without.
    """

    def __init__(
        self,
        clock: Clock,
        bytes_max: int = BYTES_MAX,
        stuck_s: float = 0.0,
        troubled: Callable[[str], None] = lambda why: None,
    ) -> None:
        assert bytes_max > 0
        super().__init__()
        self._stuck_s, self._troubled = stuck_s, troubled
        self._failing_since: dict[tuple[str, Hashable], float] = {}
        self.clock = clock
        self.ring = Ring(bytes_max, self._base)
        self._segment, self._turn_at = self.ring.now, self.ring.turn_at
        self.reads: array[float] = self._segment.reads
        """Of the clock, since the segment began."""
        self._time: Callable[[], float] = self._first_time
        self.in_flight: dict[int, tuple[float, Request | str]] = {}
        self._number = 0
        self._informers: list[Informer[Any]] = []
        self._own: list[tuple[tuple[Kind[Any], Selection], Callable[[], Iterable[Any]]]] = []
        self.watches: dict[int, Request] = {}  # by number, the newest
        self._hidden: set[int] = set()  # watches of Secrets
        self.redacted: Callable[[Message], str] = str
        """A message as text, to be set by what needs protobuf anyway."""
        self._is_on = True

    def rest(self) -> None:
        """What comes from now on is not kept, before `begin`."""
        self._is_on = False
        self.reads = _Unkept("d")

    def begin(self) -> None:
        """After a rest the record begins now, with what the caches hold."""
        if not self._is_on:
            self._is_on = True
            self._segment = self.ring.begin_anew()
            self.reads = self._segment.reads

    def _first_time(self) -> float:
        """The loop is known once something happens."""
        self._time = asyncio.get_running_loop().time
        return self._time()

    # -- as an Order

    def begun(self, queue: str, key: Hashable) -> None:
        self._note((entries.BEGUN, self._time(), _who(), len(self.reads), queue, key), 0)

    def decided(self, controller: str, key: Hashable, what: object) -> None:
        if isinstance(what, Decision):
            what = what.kept()
        self._note((entries.DECIDED, self._time(), _who(), len(self.reads), controller, key, what), DECISION_BYTES)

    def came_to(self, controller: str, key: Hashable, failure: str) -> None:
        if not failure:
            if self._failing_since:
                self._failing_since.pop((controller, key), None)
            return
        now = self.clock.now()
        since = self._failing_since.setdefault((controller, key), now)
        if len(self._failing_since) > FAILING_MAX:
            del self._failing_since[next(iter(self._failing_since))]
        if self._stuck_s and now - since >= self._stuck_s:
            self._troubled(f"{controller}: {key} has failed for {now - since:.0f} s: {failure}")

    async def resumed(self, what: str, key: Hashable) -> None:
        self._note((entries.RESUMED, self._time(), _task().get_name(), len(self.reads), what, key), 0)

    def caches(self, informer: Informer[Any]) -> None:
        self._informers.append(informer)

    def keeps(self, kind: Kind[Any], namespace: str, objects: Callable[[], Iterable[Any]]) -> None:
        self._own.append(((kind, Selection(namespace)), objects))

    # -- from the ports

    def asks(self, what: Request | str) -> int:
        """A number for a request or a call, until it is over."""
        self._number = number = self._number + 1
        self.in_flight[number] = self._time(), what
        return number

    def answered(self, number: int, request: Request, answer: Any) -> None:
        del self.in_flight[number]
        if self._is_on:
            kept = _encoded(answer) if _is_plain(request, answer) else encoded_answer(request, answer)
            self._note(
                (entries.ANSWER, self._time(), _task().get_name(), len(self.reads), request, kept, None), len(kept)
            )

    def refused(self, number: int, request: Request, error: ApiError) -> None:
        """The error itself is not kept: its traceback holds whatever the request had in hand, an answer of 256 MiB for one."""
        del self.in_flight[number]
        fault = entries.fault_of(error)
        self._note(
            (entries.ANSWER, self._time(), _task().get_name(), len(self.reads), request, UNREADABLE, fault), fault.size
        )

    def gave_up(self, number: int) -> None:
        _, what = self.in_flight.pop(number)
        self._note((entries.GAVE_UP, self._time(), _who(), len(self.reads), what), 0)

    def left(self, request: Request) -> None:
        """A watch is given up."""
        self._note((entries.GAVE_UP, self._time(), _who(), len(self.reads), request), 0)

    def opened(self, request: Request) -> int:
        """A watch begins."""
        self._number = number = self._number + 1
        if holds_secrets(request):
            self._hidden.add(number)
        self.watches[number] = request
        if len(self.watches) > WATCHES_MAX:
            del self.watches[next(iter(self.watches))]
        self._note((entries.OPENED, self._time(), _task().get_name(), len(self.reads), number, request), 0)
        return number

    def event(self, number: int, event: WatchEvent[Any]) -> None:
        if self._is_on:
            kept = UNREADABLE if event.object is None or number in self._hidden else _encoded(event.object)
            last, version = event.initial_events_end, event.resource_version
            self._note(
                (
                    entries.EVENT,
                    self._time(),
                    _task().get_name(),
                    len(self.reads),
                    number,
                    event.type,
                    version,
                    last,
                    kept,
                ),
                len(kept),
            )
            if self._segment.base is not None and isinstance(event.object, ApiStruct):
                self._segment.size += self._outlived(number, event.object, event.type, len(kept))

    def _outlived(self, number: int, obj: Any, type: EventType, size: int) -> int:
        """Bytes of the object as it was: with its first change in a segment, nobody holds it any more but the segment's base."""
        changed, key = self._segment.changed, hash((number, obj.metadata.namespace, obj.metadata.name))
        if key in changed:
            return 0
        changed.add(key)
        return CHANGED_BYTES if type is EventType.ADDED else CHANGED_BYTES + OBJECT_BYTES * size

    def ended(self, number: int, error: ApiError | None) -> None:
        fault = error and entries.fault_of(error)
        self._note(
            (entries.ENDED, self._time(), _task().get_name(), len(self.reads), number, fault),
            fault.size if fault else 0,
        )

    def called(
        self, number: int, attribute: str, request: Message, answer: Message | None, error: DriverError | None
    ) -> None:
        """request, answer: without secrets; nobody changes them any more."""
        del self.in_flight[number]
        fault = error and entries.fault_of(error)
        size = MESSAGE_BYTES * request.ByteSize() + (0 if answer is None else MESSAGE_BYTES * answer.ByteSize())
        self._note(
            (
                entries.CALL,
                self._time(),
                _task().get_name(),
                len(self.reads),
                attribute,
                request,
                answer,
                fault,
                self.redacted,
            ),
            size + (fault.size if fault else 0),
        )

    def drew(self, method: str, value: object) -> None:
        self._note((entries.DREW, self._time(), _who(), len(self.reads), method, value), 0)

    def wall(self, value: float) -> None:
        self._note((entries.WALL, self._time(), _who(), len(self.reads), value), 0)

    def returned(self) -> None:
        """The driver was away and is back."""
        self._note((entries.RETURNED, self._time(), _who(), len(self.reads)), 0)

    def drained(self) -> None:
        """The work is told to end."""
        self._note((entries.DRAINED, self._time(), _who(), len(self.reads)), 0)

    def _note(self, note: Note, size: int) -> None:
        if self._is_on:
            segment = self._segment
            if segment.size > self._turn_at:  # now the caches hold all that was noted before
                segment = self._segment = self.ring.turn()
                self.reads = segment.reads
                note = (*note[:3], 0, *note[4:])
            segment.notes.append(note)
            segment.size += size + ENTRY_BYTES

    def _base(self) -> tuple[Any, int]:
        """What the caches hold: references, and about how many bytes they take."""
        base = [(informer.scope, informer.store.version, informer.store.values()) for informer in self._informers]
        base += [(scope, entries.OWN, tuple(objects())) for scope, objects in self._own]
        return tuple(base), sum(8 * len(objects) for _, _, objects in base)


class _Unkept(array):  # type: ignore[type-arg]
    """Takes reads of the clock that nobody needs."""

    def append(self, value: float, /) -> None: ...


def _who() -> str:
    task = _task()
    return "" if task is None else str(task.get_name())


def _is_plain(request: Request, answer: Any) -> bool:
    """True for one object without secrets."""
    return (
        request.verb is not Verb.LIST
        and isinstance(answer, msgspec.Struct)
        and not holds_secrets(request)
        and not gives_token(request)
    )


def encoded_answer(request: Request, answer: Any) -> bytes:
    """An answer as JSON, without secrets."""
    if request.verb is Verb.LIST and isinstance(answer, Page):
        unread = [tuple(one) for one in answer.unread]
        page = {"items": answer.items, "rv": answer.resource_version, "token": answer.continue_token, "unread": unread}
        return _encoded(stripped_answer(request, page))
    return _encoded(stripped_answer(request, answer))


def _encoded(value: Any) -> bytes:
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError):  # a value that is no JSON; a program must not fail for its recorder
        return UNREADABLE
