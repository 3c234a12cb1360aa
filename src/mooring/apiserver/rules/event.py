"""core/v1 and events.k8s.io/v1 Event: two views of the same objects, which live an hour. The rules of both run on the
shape of core/v1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import deletion, field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, Resource, StorageVersion
from mooring.apiserver.rules import checks, volumesources

MESSAGES: Final = volumesources.MESSAGES.extended("""
Event: 1 metadata ObjectMeta!+, 2 involvedObject ObjectReference!+, 3 reason s, 4 message s, 5 source EventSource!, 6 firstTimestamp time!, 7 lastTimestamp time!, 8 count i32, 9 type s, 10 eventTime micro!, 11 series EventSeries?, 12 action s, 13 related ObjectReference?, 14 reportingComponent s!-, 15 reportingInstance s!-
EventSource: 1 component s, 2 host s
EventSeries: 1 count i32, 2 lastObservedTime micro!
""")  # noqa: E501

TTL_S: Final = 3600.0
_MESSAGE_MAX: Final = 1024
_SHORT_MAX: Final = 128
_NAME_BYTES_MAX: Final = 16 * 1024
"""Of a longer name the head of a request has no room, percent-encoded as it is there: nobody could delete the Event."""
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_OTHER_NAMESPACE: Final = "does not match event.namespace"


NEW_FIELD_NAMES: Final = frozenset(
    {*(f"regarding.{part}" for part in _INVOLVED), "reason", "reportingController", "type"}
)
"""The field selectors of events.k8s.io/v1."""


def _wrong_with_name(name: str) -> list[str]:
    """Differs from kube-apiserver, which takes any length."""
    long = len(name.encode()) > _NAME_BYTES_MAX
    return [*names.path_segment(name), *([f"must be no more than {_NAME_BYTES_MAX} bytes"] if long else [])]


def rules(controller: str) -> Callable[[Json], Iterator[FieldCause]]:
    """The rules of both APIs. controller: the API's name of reportingComponent."""

    def validate(new: Json) -> Iterator[FieldCause]:
        namespace, about, is_timed = (
            new["metadata"]["namespace"],
            new["involvedObject"].get("namespace", ""),
            bool(new.get("eventTime")),
        )
        allowed = ("default", "kube-system") if is_timed else ("default",)
        if (not about and namespace not in allowed) or (about and about != namespace and not is_timed):
            yield field_errors.invalid("involvedObject.namespace", about, _OTHER_NAMESPACE)
        if is_timed:
            yield from _validate_timed(new, controller)

    return validate


def _validate_timed(new: Json, controller: str) -> Iterator[FieldCause]:
    """The rules for events with eventTime, those of newer recorders."""
    component = new["reportingComponent"]
    if not component:
        yield field_errors.required(controller)
    yield from field_errors.named(component, controller, names.qualified_name)
    for field in ("reportingInstance", "action", "reason"):
        yield from _short(new.get(field, ""), field)
    if len(new.get("message", "").encode()) > _MESSAGE_MAX:
        yield field_errors.invalid("message", "", f"can have at most {_MESSAGE_MAX} characters")


def _short(text: str, field: str) -> list[FieldCause]:
    if not text:
        return [field_errors.required(field)]
    return (
        []
        if len(text.encode()) <= _SHORT_MAX
        else [field_errors.invalid(field, "", f"can have at most {_SHORT_MAX} characters")]
    )


def _fields(event: Json) -> dict[str, str]:
    """The field selectors of both APIs: the objects are the same."""
    found = {part: event.get(part, "") for part in ("reason", "type")}
    for part in _INVOLVED:
        found[f"involvedObject.{part}"] = found[f"regarding.{part}"] = event["involvedObject"].get(part, "")
    found["reportingComponent"] = found["reportingController"] = event["reportingComponent"]
    found["source"] = event["source"].get("component") or event["reportingComponent"]
    return found


EVENTS: Final = Resource(
    group="",
    kind="Event",
    plural="events",
    namespaced=True,
    short_names=("ev",),
    message=MESSAGES["Event"],
    bare_finalizers=True,
    put_creates=True,
    delete_answers_object=False,
    delete=deletion.alone,
    ttl_s=TTL_S,
    cached=False,
    name_rule=_wrong_with_name,
    validate=rules("reportingComponent"),
    field_names=frozenset(
        {*(f"involvedObject.{part}" for part in _INVOLVED), "reason", "reportingComponent", "source", "type"}
    ),
    fields=_fields,
)


NEW_MESSAGES: Final = MESSAGES.extended("""
Event: 1 metadata ObjectMeta!+, 2 eventTime micro!, 3 series NewEventSeries?, 4 reportingController s, 5 reportingInstance s-, 6 action s, 7 reason s, 8 regarding ObjectReference!, 9 related ObjectReference?, 10 note s, 11 type s, 12 deprecatedSource EventSource!, 13 deprecatedFirstTimestamp time!, 14 deprecatedLastTimestamp time!, 15 deprecatedCount i32
NewEventSeries: 1 count i32!, 2 lastObservedTime micro!
""")  # noqa: E501

_CORE_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""The names in core/v1 of the fields that have another name there."""

_NEW_NAMES: Final = {old: new for new, old in _CORE_NAMES.items()}
_ALWAYS: Final[Json] = {"reportingComponent": "", "reportingInstance": ""}
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FROZEN: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
)
_FROZEN_TOO: Final = ("action", "related", "reportingComponent", "reportingInstance")


def _decode_new(stored: Json) -> Json:
    shown = {_NEW_NAMES.get(name, name): value for name, value in stored.items() if value != "" or name not in _ALWAYS}
    if "series" in shown:
        shown["series"] = {"count": 0, **shown["series"]}
    head = {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    return {**head, **shown, **head}  # (what an object is stands first, as in all others)


def _encode_new(shown: Json, _old: Json | None) -> Json:
    stored = {_CORE_NAMES.get(name, name): value for name, value in shown.items()}
    if not stored.get("series", {}).get("count", 1):
        del stored["series"]["count"]
    head = {"apiVersion": "v1", "kind": "Event"}
    return {**head, **_ALWAYS, **stored, **head}


def _validate_new_create(new: Json) -> list[FieldCause]:
    metadata = new["metadata"]
    prefix, rule = metadata.get("generateName", ""), names.prefix_of(names.dns_subdomain)
    found = field_errors.named(prefix, "metadata.generateName", rule) if prefix else []
    found += field_errors.named(metadata.get("name", ""), "metadata.name", names.dns_subdomain) + _validate_series(new)
    if not new.get("eventTime"):
        found.append(field_errors.required("eventTime"))
    if new.get("type") not in ("Normal", "Warning"):
        found.append(field_errors.invalid("type", "", f"has invalid value: {new.get('type', '')}"))
    return found + [field_errors.invalid(part, "", "needs to be unset") for part in _UNSET if new.get(part)]


def _validate_new_update(new: Json, old: Json) -> Iterator[FieldCause]:
    if new.get("series") != old.get("series"):
        yield from _validate_series(new)
    for part in (*_FROZEN, *_FROZEN_TOO):
        yield from checks.unchanged(new, old, part, "reportingController" if part == "reportingComponent" else part)


def _validate_series(new: Json) -> list[FieldCause]:
    series = new.get("series")
    if series is None:
        return []
    found = [field_errors.invalid("series.count", "", "should be at least 2")] if series.get("count", 0) < 2 else []
    return found + ([] if series.get("lastObservedTime") else [field_errors.required("series.lastObservedTime")])


NEW_EVENTS: Final = dataclasses.replace(
    EVENTS,
    group="events.k8s.io",
    message=NEW_MESSAGES["Event"],
    bare_finalizers=False,
    validate=rules("reportingController"),
    validate_create=_validate_new_create,
    validate_update=_validate_new_update,
    field_names=NEW_FIELD_NAMES,
    storage_version=StorageVersion(EVENTS.path, _decode_new, _encode_new),
)
