"""The scale of a custom kind: autoscaling/v1 Scale as another form of the same objects."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from mooring.apiserver import objectmeta
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.custom.facts import ScalePaths
from mooring.apiserver.resource import Action, Form, Json, Resource

_MESSAGES: Final = objectmeta.MESSAGES.extended("""
Scale: 1 metadata ObjectMeta!, 2 spec ScaleSpec!, 3 status ScaleStatus!
ScaleSpec: 1 replicas i32
ScaleStatus: 1 replicas i32!, 2 selector s
""")
_VERSION: Final = "autoscaling/v1"
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_action(resource: Resource, paths: ScalePaths) -> Action:
    """The sub-resource of a kind. resource: the kind without it."""
    inner = Action(name="scale", verbs=("get", "patch", "update"), prepare=resource.prepare_update, validate=resource.validate_update)
    shown = dataclasses.replace(
        resource,
        kind="Scale",
        body_version=_VERSION,
        put_without_version=True,
        decode=lambda content, unknown: decode(_MESSAGES["Scale"], content, unknown),
        form=_form(resource, paths),
        actions=(inner,),
    )
    return Action(name="scale", verbs=inner.verbs, part=shown)


def _form(resource: Resource, paths: ScalePaths) -> Form:
    """Differs from kube-apiserver, which can't show the scale of an object without replicas: it is 0."""

    def show(stored: Json) -> Json:
        metadata = {name: stored["metadata"][name] for name in _SHOWN if name in stored["metadata"]}
        wanted, found = _at(stored, paths.spec_replicas), _at(stored, paths.status_replicas)
        status: Json = {"replicas": found or 0}
        if paths.selector and _at(stored, paths.selector):
            status["selector"] = _at(stored, paths.selector)
        spec = {"replicas": wanted} if wanted else {}
        return {"kind": "Scale", "apiVersion": _VERSION, "metadata": metadata, "spec": spec, "status": status}

    def keep(shown: Json, old: Json | None) -> Json:
        """The object with that many replicas; what the scale says of its version and uid is asked for."""
        assert old is not None, "a scale is of something"
        obj = old if resource.form is None else resource.form.keep(resource.form.show(old), None)
        for name in ("resourceVersion", "uid"):
            obj["metadata"].pop(name, None)
            if shown["metadata"].get(name):
                obj["metadata"][name] = shown["metadata"][name]
        holder = obj
        for step in paths.spec_replicas[:-1]:
            holder = holder.setdefault(step, {})
        holder[paths.spec_replicas[-1]] = shown["spec"].get("replicas", 0)
        return obj

    return Form(resource.storage, show, keep)


def _at(obj: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj
