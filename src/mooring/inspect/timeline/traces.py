"""The fields of any object that tell when something happened to it, and the moments that are made of them."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from mooring.api.meta import ApiStruct, Condition, ObjectMeta


class ManagedFields(ApiStruct, frozen=True):
    """What a manager owns. time: of its last write to any of it. fields_v1: maps in maps, see `moments.py`."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str | None = None
    fields_v1: dict[str, Any] = msgspec.field(name="fieldsV1", default_factory=dict)


class TracedMeta(ObjectMeta, frozen=True):
    managed_fields: tuple[ManagedFields, ...] | None = None


class TimedError(ApiStruct, frozen=True):
    time: str | None = None
    message: str = ""


class Running(ApiStruct, frozen=True):
    started_at: str | None = None


class Ended(ApiStruct, frozen=True):
    finished_at: str | None = None
    reason: str = ""
    exit_code: int = 0


class ContainerState(ApiStruct, frozen=True):
    running: Running | None = None
    terminated: Ended | None = None


class ContainerStatus(ApiStruct, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()


class TracedStatus(ApiStruct, frozen=True):
    """creation_time: of a snapshot, RFC 3339; of its content, nanoseconds since 1970."""

    phase: str = ""
    last_phase_transition_time: str | None = None
    start_time: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    attach_error: TimedError | None = None
    detach_error: TimedError | None = None
    error: TimedError | None = None
    creation_time: str | int | None = None


class Traced(ApiStruct, frozen=True):
    """An object of any kind, as far as it tells of times."""

    metadata: TracedMeta = TracedMeta()
    status: TracedStatus | None = None


def traced(whole: dict[str, Any]) -> Traced:
    """The object's traces; none where it can't be read."""
    try:
        return msgspec.convert(whole, Traced)
    except msgspec.ValidationError:
        return Traced()


class Source(enum.StrEnum):
    """The field that a moment was read from."""

    CREATED = "created"
    DELETED = "deleted"
    WROTE = "managedFields"
    STATE = "status"
    ERROR = "error"
    EVENT = "event"
    LEASE = "lease"


class Lane(msgspec.Struct, frozen=True):
    """One object of the chain. label: short and unique, `pvc` or `pvc 2`. kind: as people type it. name: with its
    namespace.
    """

    label: str
    kind: str
    name: str
    uid: str


class Moment(msgspec.Struct, frozen=True):
    """Something that happened.

    at_s: seconds since 1970. lane: the label. who: the program that did it, "" where nothing proves it. what: the rest
    of the sentence that begins with `who`. is_bad: an error or a warning. reason: of an Event. is_repeat: an Event told
    again, which moves nothing on.
    """

    at_s: float
    lane: str
    source: Source
    what: str
    who: str = ""
    is_bad: bool = False
    reason: str = ""
    is_repeat: bool = False
