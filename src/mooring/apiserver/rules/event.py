"""core/v1 Event. It lives an hour after its last write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.api import names
from mooring.apiserver import deletion, field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks, volumesources

MESSAGES: Final = volumesources.MESSAGES.extended("""
Event: 1 metadata ObjectMeta!, 2 involvedObject ObjectReference!, 3 reason s, 4 message s, 5 source EventSource!, 6 firstTimestamp time!, 7 lastTimestamp time!, 8 count i32, 9 type s, 10 eventTime micro!, 11 series EventSeries?, 12 action s, 13 related ObjectReference?, 14 reportingComponent s!, 15 reportingInstance s!
EventSource: 1 component s, 2 host s
EventSeries: 1 count i32, 2 lastObservedTime micro!
""")  # noqa: E501

TTL_S: Final = 3600.0
_MESSAGE_MAX: Final = 1024
_SHORT_MAX: Final = 128
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_OTHER_NAMESPACE: Final = "does not match event.namespace"


NEW_FIELD_NAMES: Final = frozenset({*(f"regarding.{part}" for part in _INVOLVED), "reason", "reportingController", "type"})
"""The field selectors of events.k8s.io/v1."""


def rules(controller: str) -> Callable[[Json], list[Cause]]:
    """What both APIs ask for. controller: what the API calls reportingComponent."""

    def validate(new: Json) -> list[Cause]:
        namespace, about = new["metadata"]["namespace"], new["involvedObject"].get("namespace", "")
        if not new.get("eventTime"):
            fits = about == namespace or (not about and namespace == "default")
            return [] if fits else [field_errors.invalid("involvedObject.namespace", about, _OTHER_NAMESPACE)]
        found = []
        if not about and namespace not in ("default", "kube-system"):
            found.append(field_errors.invalid("involvedObject.namespace", about, _OTHER_NAMESPACE))
        return found + _validate_timed(new, controller)

    return validate


def _validate_timed(new: Json, controller: str) -> list[Cause]:
    """What an event with eventTime, one of the newer recorders, must have."""
    component = new["reportingComponent"]
    found = [] if component else [field_errors.required(controller)]
    found += checks.named(component, controller, names.qualified_name)
    for field in ("reportingInstance", "action", "reason"):
        found += _short(new.get(field, ""), field)
    if len(new.get("message", "")) > _MESSAGE_MAX:
        found.append(field_errors.invalid("message", "", f"can have at most {_MESSAGE_MAX} characters"))
    return found


def _short(text: str, field: str) -> list[Cause]:
    if not text:
        return [field_errors.required(field)]
    return [] if len(text) <= _SHORT_MAX else [field_errors.invalid(field, "", f"can have at most {_SHORT_MAX} characters")]


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
    name_rule=names.path_segment,
    validate=rules("reportingComponent"),
    field_names=frozenset({*(f"involvedObject.{part}" for part in _INVOLVED), "reason", "reportingComponent", "source", "type"}),
    fields=_fields,
)
