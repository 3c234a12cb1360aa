"""Writes of both programs: several finalizers in one patch, and whether a refusal says that the object has moved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from mooring.api.meta import Kind, Object, OwnerReference, finalizers_of, is_deleting, key_of
from mooring.api.snapshot_names import TOUCHED, YES, is_marked
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch
from mooring.kube.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound, ServerError, TooLarge
from mooring.kube.patch import Operation, add, is_about_identity, merge_patch, remove, test

T = TypeVar("T", bound=Object)

_FINALIZERS = "/metadata/finalizers"

LASTING: Final = (BadRequest, Forbidden, Invalid, ServerError, TooLarge)
"""Refusals of a write that may last: of a right, a policy, a webhook, a bound."""


async def patch_object(cluster: Cluster, cache: Informer[T], kind: Kind[T], obj: T, patch: Patch, subresource: str = "") -> T:
    """One patch, whose answer enters the cache. Raises Stale where the object has moved or is no more, and ApiError."""
    key = key_of(obj)
    with stale_where_moved():
        return await cache.write(key, cluster.patch(kind, key.name, patch, key.namespace, subresource=subresource))


def annotate(obj: Object, name: str, value: str | None) -> Patch:
    """Sets this annotation, None takes it off; all others stay as they are."""
    return merge_patch({"metadata": {"annotations": {name: value}}}, of=obj)


def annotate_as_judged(obj: Object, name: str, value: str | None) -> Patch:
    """As `annotate`, for what holds only while the object is as it was judged: one that is carried out late is refused."""
    return as_judged(obj, {"annotations": {name: value}})


def mark_as_judged(obj: Object, name: str, finalizer: str) -> Patch:
    """Sets the mark of a creation, with the finalizer, which somebody may have torn off. Where the mark may be there already, another
    version is made of the object, so that a removal of the mark which is still on its way is refused.
    """
    moved = {TOUCHED: obj.metadata.resource_version} if is_marked(obj, name) else {}
    is_held = finalizer in finalizers_of(obj) or is_deleting(obj)
    held = {} if is_held else {"finalizers": [*finalizers_of(obj), finalizer]}
    return as_judged(obj, {"annotations": {name: YES, **moved}, **held})


def as_read(obj: Object, patch: Patch) -> Patch:
    """The JSON patch for this very version of the object alone."""
    return Patch(patch.type, [test("/metadata/resourceVersion", obj.metadata.resource_version), *patch.body])


def as_judged(obj: Object, metadata: Mapping[str, Any], spec: Mapping[str, Any] | None = None) -> Patch:
    """Sets fields of this very version of the object.

    In place of tests for fields that may be missing or "", between which a decoded object can't tell.
    """
    meta = {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version, **metadata}
    return merge_patch({"metadata": meta, **({"spec": spec} if spec else {})})


def addition(obj: Object, finalizers: tuple[str, ...]) -> list[Operation]:
    """Steps that add finalizers to this very object, if its list is still what it was."""
    held = obj.metadata.finalizers
    same = test("/metadata/uid", obj.metadata.uid)
    if not finalizers:
        return [same]
    if not held:
        return [same, test(_FINALIZERS, None if held is None else []), add(_FINALIZERS, list(finalizers))]
    return [same, test(_FINALIZERS, list(held)), *(add(f"{_FINALIZERS}/-", one) for one in finalizers)]


def removal(obj: Object, finalizers: tuple[str, ...]) -> list[Operation]:
    """Steps that remove finalizers by their places, from the end of the list to its beginning."""
    steps = [test("/metadata/uid", obj.metadata.uid)]
    for place, held in reversed(list(enumerate(finalizers_of(obj)))):
        if held in finalizers:
            steps += [test(f"{_FINALIZERS}/{place}", held), remove(f"{_FINALIZERS}/{place}")]
    return steps


def owner_json(owner: OwnerReference) -> Mapping[str, Any]:
    """As the API server takes it, without fields that say nothing."""
    flags = {"controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion}
    named = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return {**named, **{key: value for key, value in flags.items() if value is not None}}


@contextlib.contextmanager
def stale_where_moved() -> Iterator[None]:
    """Turns refusals of a write into Stale where the object is not as it was: the decision is made anew."""
    try:
        yield
    except (Conflict, NotFound) as error:
        raise Stale(str(error)) from error
    except Invalid as error:
        if not is_about_identity(error):
            raise  # the write itself is wrong, and would be for ever
        raise Stale(str(error)) from error
