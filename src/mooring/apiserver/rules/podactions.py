"""The pod's sub-resources: binding, eviction, ephemeral containers, resize, and those that need a machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.deletion import options_of
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Action, ApiCall, Json, answered_kind
from mooring.apiserver.rules import checks, podresources, podspec
from mooring.apiserver.rules.podshape import MESSAGES as SHAPES
from mooring.base.clock import rfc3339
from mooring.kube.errors import Conflict, NotFound, ServerError

MESSAGES: Final = SHAPES.extended("""
Binding: 1 metadata ObjectMeta!, 2 target ObjectReference!+
Eviction: 1 metadata ObjectMeta!, 2 deleteOptions DeleteOptions?
""")

_READ_AND_WRITE: Final = ("get", "patch", "update")
_RESIZABLE: Final = ("cpu", "memory")


def bind(call: ApiCall) -> Json:
    """The pod gets its node, once. Labels and annotations of the binding become the pod's."""
    pods = call.store.resource("", "v1", "pods")
    assert pods is not None
    body, name = call.body, call.key.name or call.body["metadata"].get("name", "")
    if body["metadata"].get("name", "") != name:
        raise api_errors.bad_request("name in URL does not match name in Binding object")
    target = body["target"]
    wrong = [] if target.get("name") else [field_errors.required("target.name")]
    wrong += checks.one_of(target.get("kind") or "Node", "target.kind", ("Node", "<empty>"))
    if wrong:
        raise field_errors.invalid_object("Binding", "", name, wrong)

    def change(pod: Json) -> None:
        _check_bindable(pod, body["metadata"])
        pod["spec"]["nodeName"] = target["name"]
        for part in ("labels", "annotations"):
            if body["metadata"].get(part):
                pod["metadata"][part] = {**(pod["metadata"].get(part) or {}), **body["metadata"][part]}
        set_condition(pod["status"], {"type": "PodScheduled", "status": "True"}, call.now)

    call.store.amend(pods, Key(call.key.namespace, name), change, call.now, dry_run=call.dry_run)
    return done()


def _check_bindable(pod: Json, wanted: Json) -> None:
    found, name = pod["metadata"], pod["metadata"]["name"]
    for part, called in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(part) and wanted[part] != found[part]:
            raise _conflict(
                "pods",
                name,
                f"Precondition failed: {called} in precondition: {wanted[part]}, {called} in object meta: "
                f"{found[part]}",
            )
    if found.get("deletionTimestamp"):
        raise _conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise _conflict("pods/binding", name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise _conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def _conflict(plural: str, name: str, why: str) -> Conflict:
    text = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return Conflict(text, reason="Conflict", details={"name": name, "kind": plural})


def set_condition(status: Json, condition: Json, now: float) -> None:
    """Writes a condition; its time stays while its status does."""
    conditions = status.setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    since = old["lastTransitionTime"] if old is not None and same else rfc3339(now)
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": since}
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new


def _evict(call: ApiCall) -> Json:
    """A deletion that says what it is. Nobody keeps a disruption budget here."""
    if call.body["metadata"].get("name", "") != call.key.name:
        raise api_errors.bad_request("name in URL does not match name in Eviction object")
    options = options_of(call.body.get("deleteOptions") or {}, dry_run=call.dry_run)
    found = call.store.get(call.resource, call.key)
    # What it would refuse is refused before anything is written.
    call.store.delete(call.resource, call.key, call.now, msgspec.structs.replace(options, dry_run=True))
    if not options.dry_run and not found.whole()["metadata"].get("deletionTimestamp"):
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        call.store.amend(call.resource, call.key, lambda pod: set_condition(pod["status"], target, call.now), call.now)
        options = msgspec.structs.replace(options, resource_version=None)
    call.store.delete(call.resource, call.key, call.now, options)
    return done()


# parts of a pod that are written through an endpoint of their own


def _prepare_ephemeral(new: Json, old: Json, _now: float) -> None:
    added = new["spec"].get("ephemeralContainers")
    _keep_all(new, old)
    new["spec"] = {**old["spec"], **({"ephemeralContainers": added} if added else {})}
    if not added:
        new["spec"].pop("ephemeralContainers", None)
    count_change(new, old)


def _validate_ephemeral(new: Json, old: Json) -> Iterator[FieldCause]:
    spec, field = new["spec"], "spec.ephemeralContainers"
    containers = spec.get("ephemeralContainers") or []
    by_name = {container["name"]: container for container in containers}
    for container in old["spec"].get("ephemeralContainers") or []:
        if container["name"] not in by_name:
            yield field_errors.forbidden(
                field, f'existing ephemeral containers "{container["name"]}" may not be removed'
            )
        elif by_name[container["name"]] != container:
            yield field_errors.forbidden(
                field, f'existing ephemeral containers "{container["name"]}" may not be changed'
            )
    yield from podspec.validate_ephemeral(spec, new["metadata"]["name"])


def _prepare_resize(new: Json, old: Json, _now: float) -> None:
    """Resources of containers, and what a change of them restarts."""
    wanted = new["spec"]
    _keep_all(new, old)
    new["spec"] = {**old["spec"]}
    for part in ("containers", "initContainers"):
        if part in old["spec"]:
            by_name = {container["name"]: container for container in wanted.get(part) or []}
            new["spec"][part] = [_resized(container, by_name.get(container["name"])) for container in old["spec"][part]]
    count_change(new, old)


def _resized(container: Json, wanted: Json | None) -> Json:
    if wanted is None:
        return container
    left = {name: value for name, value in container.items() if name != "resizePolicy"}
    policy = {"resizePolicy": wanted["resizePolicy"]} if "resizePolicy" in wanted else {}
    return {**left, "resources": wanted["resources"], **policy}


def _validate_resize(new: Json, old: Json) -> Iterator[FieldCause]:
    yield from podspec.validate(new["spec"], new["metadata"]["name"])
    for number, (container, before) in enumerate(
        zip(new["spec"]["containers"], old["spec"]["containers"], strict=True)
    ):
        for part in ("limits", "requests"):
            now, was = (one["resources"].get(part) or {} for one in (container, before))
            if any(name not in now for name in was):
                at = f"spec.containers[{number}].resources.{part}"
                yield field_errors.forbidden(at, f"resource {part} cannot be removed")
            if any(now.get(name) != was.get(name) for name in {*now, *was} if name not in _RESIZABLE):
                yield field_errors.forbidden("spec", "only cpu and memory resources are mutable")
    quality = podresources.quality(old["spec"])
    if podresources.quality(new["spec"]) != quality:
        yield field_errors.invalid("spec", quality, "Pod QOS Class may not change as a result of resizing")


def _keep_all(new: Json, old: Json) -> None:
    new.clear()
    new.update(old)
    new["metadata"] = dict(old["metadata"])


def count_change(new: Json, old: Json) -> None:
    """The generation counts changes of the spec."""
    if new["spec"] != old["spec"]:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# doors to a kubelet


def _no_kubelet(call: ApiCall) -> None:
    pod = call.store.get(call.resource, call.key).whole()
    node = pod["spec"].get("nodeName")
    if not node:
        raise api_errors.bad_request(f"pod {call.key.name} does not have a host assigned")
    nodes = call.store.resource("", "v1", "nodes")
    assert nodes is not None
    try:
        call.store.get(nodes, Key("", node))
    except NotFound:
        raise api_errors.not_found(call.resource, node) from None  # as upstream says it: of pods, by the node's name
    text = f"pod {call.key.name} can't be looked into: there is no kubelet behind this API server"
    raise ServerError(text, reason="ServiceUnavailable", code=503)


def _log(call: ApiCall) -> None:
    """There is nothing to read of a pod without a node. Of several containers one is named."""
    pod, name = call.store.get(call.resource, call.key).whole(), call.key.name
    found = [
        each["name"]
        for part in ("initContainers", "containers", "ephemeralContainers")
        for each in pod["spec"].get(part) or ()
    ]
    wanted = call.body.get("container")
    if not wanted and len(pod["spec"]["containers"]) > 1:
        raise api_errors.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(found)}]"
        )
    if wanted and wanted not in found:
        raise api_errors.bad_request(f"container {wanted} is not valid for pod {name}")
    if pod["spec"].get("nodeName"):
        _no_kubelet(call)


BINDINGS: Final = answered_kind("", "Binding", MESSAGES, bind, namespaced=True)
_EVICTIONS: Final = answered_kind("policy", "Eviction", MESSAGES, _evict, namespaced=True)

ACTIONS: Final = (
    Action(name="attach", verbs=("create", "get"), kind="PodAttachOptions", connect=_no_kubelet),
    Action(name="binding", verbs=("create",), asks=BINDINGS),
    Action(name="ephemeralcontainers", verbs=_READ_AND_WRITE, prepare=_prepare_ephemeral, validate=_validate_ephemeral),
    Action(name="eviction", verbs=("create",), asks=_EVICTIONS),
    Action(name="exec", verbs=("create", "get"), kind="PodExecOptions", connect=_no_kubelet),
    Action(name="log", verbs=("get",), connect=_log),
    Action(name="portforward", verbs=("create", "get"), kind="PodPortForwardOptions", connect=_no_kubelet),
    Action(name="resize", verbs=_READ_AND_WRITE, prepare=_prepare_resize, validate=_validate_resize),
)


def done() -> Json:
    """The Status of a question that changes something and has nothing to tell."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
