"""PodTemplateSpec, in the kinds that make pods: shape, defaults, what is valid, and the parts that these kinds share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mooring.api.matching import selects
from mooring.api.meta import LabelSelector
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.custom.serving import scale_action
from mooring.apiserver.custom.structure import ScalePaths
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks, poddefaults, podshape, podspec, podupdate, podwarnings, selectors

FIELD: Final = "spec.template"

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


def validate(template: Json) -> Iterator[Cause]:
    """As a pod's, each cause below the template."""
    yield from validate_metadata(template)
    pod = {"metadata": template["metadata"], "spec": template["spec"]}
    for cause in (*podspec.validate(pod), *podupdate.validate_created(pod)):
        yield dataclasses.replace(cause, field=f"{FIELD}.{cause.field}")


def validate_metadata(template: Json) -> Iterator[Cause]:
    return metadata.labels(template["metadata"].get("labels") or {}, f"{FIELD}.labels")


def validate_endless(template: Json, deadline: Cause) -> Iterator[Cause]:
    """The rules for pods that never end. deadline: the cause when there is one."""
    policy = template["spec"]["restartPolicy"]
    yield from checks.one_of(policy, f"{FIELD}.spec.restartPolicy", ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        yield deadline


def validate_selector(spec: Json, kind: str) -> Iterator[Cause]:
    """It is there, selects something, and selects what the template makes. kind: as the text names it."""
    selector = spec.get("selector")
    if selector is None:
        yield field_errors.required("spec.selector")
        yield _unselected(spec)
        return
    wrong = list(selectors.validate_labels(selector, "spec.selector"))
    yield from wrong
    if not selector:
        yield field_errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    elif not wrong:
        yield from validate_selected(spec)


def validate_selected(spec: Json) -> Iterator[Cause]:
    if not selects(msgspec.convert(spec["selector"], LabelSelector), spec["template"]["metadata"].get("labels")):
        yield _unselected(spec)


def _unselected(spec: Json) -> Cause:
    labels = spec["template"]["metadata"].get("labels") or {}
    return field_errors.invalid(f"{FIELD}.metadata.labels", labels, "`selector` does not match template `labels`")


def validate_counts(spec: Json, *parts: str) -> Iterator[Cause]:
    for part in parts:
        yield from checks.at_least(spec.get(part), f"spec.{part}", 0)


def warnings(new: Json, old: Json | None) -> list[str]:
    """Those of the template, when it is new."""
    template = new["spec"]["template"]
    if old is not None and old["spec"]["template"] == template:
        return []
    return [f"{FIELD}.{text}" for text in podwarnings.warnings(template, None)]


# -- the scale


def with_scale(resource: Resource) -> Resource:
    """The kind with its sub-resource `scale`, which shows the selector as text."""

    def wrong(new: Json, old: Json) -> Iterator[Cause]:
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

    part = dataclasses.replace(scaled.part, storage_version=dataclasses.replace(version, decode=decode_stored))
    return dataclasses.replace(resource, actions=(*resource.actions, dataclasses.replace(scaled, part=part)))


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
