"""PodTemplateSpec, in the kinds that make pods: shape, defaults, what is valid, and the parts that these kinds
share.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from mooring.api import names
from mooring.api.matching import selects
from mooring.api.meta import LabelSelector
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.custom.served_kinds import scale_action
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json, Resource, ScalePaths
from mooring.apiserver.rules import checks, poddefaults, podshape, podspec, podwarnings, selectors

FIELD: Final = "spec.template"
_PREEMPTIONS: Final = ("PreemptLowerPriority", "Never")

MESSAGES: Final = podshape.MESSAGES.extended("""
PodTemplateSpec: 1 metadata ObjectMeta!, 2 spec PodSpec!
""")


def default(template: Json) -> None:
    poddefaults.default_spec(template["spec"])


def prepare_create(new: Json, _now: float) -> None:
    new["metadata"]["generation"] = 1
    new["status"] = {}


def prepare_counted(*counts: str) -> Callable[[Json, float], None]:
    """The same for a kind whose status has these counts from the beginning: clients can't read it without."""

    def prepare(new: Json, now: float) -> None:
        prepare_create(new, now)
        new["status"] = dict.fromkeys(counts, 0)

    return prepare


def prepare_update(new: Json, old: Json, _now: float) -> None:
    """The generation counts changes of the spec."""
    new["status"] = old["status"]
    if new["spec"] != old["spec"]:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# -- validation


def validate(template: Json) -> Iterator[FieldCause]:
    """As a pod's, each cause below the template."""
    yield from _validate_metadata(template)
    spec = template["spec"]
    for cause in itertools.chain(podspec.validate(spec, None), podspec.validate_ephemeral(spec, None)):
        yield msgspec.structs.replace(cause, field=f"{FIELD}.{cause.field}")
    if spec.get("ephemeralContainers"):
        yield field_errors.forbidden(
            f"{FIELD}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )
    if "runtimeClassName" in spec:
        yield from field_errors.named(spec["runtimeClassName"], f"{FIELD}.spec.runtimeClassName", names.dns_subdomain)
    policy, at = spec.get("preemptionPolicy"), f"{FIELD}.spec.preemptionPolicy"
    if policy is not None:
        yield from checks.one_of(policy, at, _PREEMPTIONS) if policy else [field_errors.required(at)]


def _validate_metadata(template: Json) -> Iterator[FieldCause]:
    yield from metadata.labels(template["metadata"].get("labels") or {}, f"{FIELD}.labels")
    yield from metadata.annotation_keys(template["metadata"].get("annotations") or {}, f"{FIELD}.annotations")


def validate_endless(template: Json, deadline: FieldCause) -> Iterator[FieldCause]:
    """The rules for pods that never end. deadline: the cause when there is one."""
    policy = template["spec"]["restartPolicy"]
    yield from checks.one_of(policy, f"{FIELD}.spec.restartPolicy", ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        yield deadline


def validate_selected(
    spec: Json, kind: str, validate_template: Callable[[Json], Iterable[FieldCause]], unreadable: str
) -> Iterator[FieldCause]:
    """The selector, and the template where that can be read. kind: as the text names it. unreadable: said where it
    can't be.
    """
    selector = spec.get("selector")
    wrong = (
        list(selectors.validate_labels(selector, "spec.selector"))
        if selector is not None
        else [field_errors.required("spec.selector")]
    )
    yield from wrong
    if selector == {}:
        yield field_errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    if selector is not None and wrong:
        yield field_errors.invalid("spec.selector", selector, unreadable)
        return
    if selector is None or not selects_own(spec):
        yield unselected_labels(spec)
    yield from validate_template(spec["template"])


def selects_own(spec: Json) -> bool:
    """True when the selector, which can be read, selects what the template makes."""
    return selects(msgspec.convert(spec["selector"], LabelSelector), spec["template"]["metadata"].get("labels"))


def unselected_labels(spec: Json) -> FieldCause:
    labels = spec["template"]["metadata"].get("labels") or {}
    return field_errors.invalid(f"{FIELD}.metadata.labels", labels, "`selector` does not match template `labels`")


def validate_counts(values: Json, field: str, *parts: str) -> Iterator[FieldCause]:
    """None is below zero. field: where the values stand."""
    for part in parts:
        yield from checks.at_least(values.get(part), f"{field}.{part}", 0)


_COUNTED: Final = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "currentReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)


def validate_status(new: Json, old: Json, parts: tuple[str, ...], ready: str) -> Iterator[FieldCause]:
    """No count is below zero. parts: not more than there are replicas. ready: as the text names what is ready, or no
    less available.
    """
    status = new["status"]
    yield from validate_counts(status, "status", *_COUNTED)
    for part in parts:
        if status.get(part, 0) > status.get("replicas", 0):
            yield field_errors.invalid(f"status.{part}", status.get(part, 0), "cannot be greater than status.replicas")
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        yield field_errors.invalid("status.availableReplicas", available, f"cannot be greater than {ready}")
    count, before = status.get("collisionCount"), old["status"].get("collisionCount")
    if before is not None and (count is None or count < before):
        yield field_errors.invalid("status.collisionCount", count or 0, "cannot be decremented")


def is_changed(new: Json, old: Json | None) -> bool:
    """True for a new object, and for one whose generation has changed."""
    return old is None or old["metadata"].get("generation") != new["metadata"].get("generation")


def warnings(new: Json, old: Json | None) -> Iterator[str]:
    """The warnings about the template, where the generation has changed."""
    if is_changed(new, old):
        yield from (f"{FIELD}.{text}" for text in podwarnings.of_pods(new["spec"]["template"]["spec"]))


def named_warnings(new: Json, old: Json | None) -> Iterator[str]:
    """Also those of a new object's name, which its pods take up."""
    if old is None:
        yield from podwarnings.names_warnings(new["metadata"], "Pod names and hostnames")
    yield from warnings(new, old)


# -- the scale


def with_scale(resource: Resource) -> Resource:
    """The kind with its sub-resource `scale`, which shows the selector as text."""

    def wrong(new: Json, old: Json) -> Iterator[FieldCause]:
        yield from resource.validate(new)
        yield from resource.validate_update(new, old)

    paths = ScalePaths(("spec", "replicas"), ("status", "replicas"), ())
    scaled = scale_action(dataclasses.replace(resource, validate_update=wrong), paths)
    assert scaled.part is not None, "a scale is a part of its object"
    version = scaled.part.storage_version
    assert version is not None, "a scale is stored in its object"

    def decode_stored(stored: Json) -> Json:
        shown = version.decode(stored)
        shown["status"]["selector"] = selector_text(stored["spec"]["selector"])
        return shown

    part = dataclasses.replace(scaled.part, storage_version=msgspec.structs.replace(version, decode=decode_stored))
    return dataclasses.replace(resource, actions=(*resource.actions, msgspec.structs.replace(scaled, part=part)))


def selector_text(selector: Json) -> str:
    """As clients write it into a list's query: by the names of the labels."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [(one["key"], _term(one)) for one in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(terms))


def _term(one: Json) -> str:
    key, values = one["key"], ",".join(sorted(one.get("values") or ()))
    match one["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
    return f"!{key}"
