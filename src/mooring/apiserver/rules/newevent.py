"""events.k8s.io/v1 Event: another view of the objects of core/v1, with stricter rules. They run on the shape of core/v1."""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.apiserver import deletion, field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Form, Json, Resource
from mooring.apiserver.rules import checks, event

MESSAGES: Final = event.MESSAGES.extended("""
Event: 1 metadata ObjectMeta!, 2 eventTime micro!, 3 series NewEventSeries?, 4 reportingController s, 5 reportingInstance s, 6 action s, 7 reason s, 8 regarding ObjectReference!, 9 related ObjectReference?, 10 note s, 11 type s, 12 deprecatedSource EventSource!, 13 deprecatedFirstTimestamp time!, 14 deprecatedLastTimestamp time!, 15 deprecatedCount i32
NewEventSeries: 1 count i32!, 2 lastObservedTime micro!
""")  # noqa: E501

_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""What core/v1 calls the fields that it calls otherwise."""

_OLD_NAMES: Final = {old: new for new, old in _NAMES.items()}
_ALWAYS: Final[Json] = {"reportingComponent": "", "reportingInstance": ""}
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FROZEN: Final = ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime")
_FROZEN_TOO: Final = ("action", "related", "reportingComponent", "reportingInstance")


def _show(stored: Json) -> Json:
    shown = {_OLD_NAMES.get(name, name): value for name, value in stored.items() if value != "" or name not in _ALWAYS}
    if "series" in shown:
        shown["series"] = {"count": 0, **shown["series"]}
    return {**shown, "apiVersion": "events.k8s.io/v1"}


def _keep(shown: Json, _old: Json | None) -> Json:
    stored = {_NAMES.get(name, name): value for name, value in shown.items()}
    if not stored.get("series", {}).get("count", 1):
        del stored["series"]["count"]
    return {**_ALWAYS, **stored, "apiVersion": "v1"}


def _validate_create(new: Json) -> list[Cause]:
    metadata = new["metadata"]
    prefix, rule = metadata.get("generateName", ""), names.prefix_of(names.dns_subdomain)
    found = checks.named(prefix, "metadata.generateName", rule) if prefix else []
    found += checks.named(metadata.get("name", ""), "metadata.name", names.dns_subdomain) + _validate_series(new)
    if not new.get("eventTime"):
        found.append(field_errors.required("eventTime"))
    if new.get("type") not in ("Normal", "Warning"):
        found.append(field_errors.invalid("type", "", f"has invalid value: {new.get('type', '')}"))
    return found + [field_errors.invalid(part, "", "needs to be unset") for part in _UNSET if new.get(part)]


def _validate_update(new: Json, old: Json) -> list[Cause]:
    found = _validate_series(new) if new.get("series") != old.get("series") else []
    for part in (*_FROZEN, *_FROZEN_TOO):
        found += checks.unchanged(new, old, part, "reportingController" if part == "reportingComponent" else part)
    return found


def _validate_series(new: Json) -> list[Cause]:
    series = new.get("series")
    if series is None:
        return []
    found = [field_errors.invalid("series.count", "", "should be at least 2")] if series.get("count", 0) < 2 else []
    return found + ([] if series.get("lastObservedTime") else [field_errors.required("series.lastObservedTime")])


NEW_EVENTS: Final = Resource(
    group="events.k8s.io",
    kind="Event",
    plural="events",
    namespaced=True,
    short_names=("ev",),
    message=MESSAGES["Event"],
    put_creates=True,
    delete_answers_object=False,
    delete=deletion.alone,
    ttl_s=event.TTL_S,
    name_rule=names.path_segment,
    validate=event.rules("reportingController"),
    validate_create=_validate_create,
    validate_update=_validate_update,
    field_names=event.NEW_FIELD_NAMES,
    fields=event.EVENTS.fields,
    form=Form(event.EVENTS.path, _show, _keep),
)
