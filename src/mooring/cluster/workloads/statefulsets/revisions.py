"""The ControllerRevisions of a StatefulSet: its templates, by name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.workloads import CONTROLLER_REVISIONS, STATEFUL_SETS, ControllerRevision, StatefulSet
from mooring.cluster.workloads.ownership import reference
from mooring.cluster.workloads.pods import created_at, template_hash

HASH: Final = "controller.kubernetes.io/hash"
_REPLACE: Final = {"$patch": "replace"}


class Revisions(msgspec.Struct, frozen=True):
    """update: the revision of the template as it is now, None before it is made. current: the one that pods come from.
    outdated: those to be deleted.

    make: the body of the missing revision. number: the new number of an old one that comes back, 0 otherwise.
    """

    update: ControllerRevision | None
    current: ControllerRevision | None
    make: dict[str, Any] | None = None
    number: int = 0
    outdated: tuple[ControllerRevision, ...] = ()


def revisions_of(stateful_set: StatefulSet, found: Iterable[ControllerRevision], in_use: Collection[str]) -> Revisions:
    """found: the set's revisions. in_use: the names of those that its pods come from."""
    ordered = sorted(found, key=lambda one: (one.revision, created_at(one), one.metadata.name))
    data = _data(stateful_set.spec.template)
    equal = [one for one in ordered if one.data == data]
    last = ordered[-1].revision if ordered else 0
    if not equal:
        return Revisions(None, _current(stateful_set, ordered), make=_body(stateful_set, data, last + 1))
    update = equal[-1]
    number = 0 if update is ordered[-1] else last + 1
    current = _current(stateful_set, ordered) or update
    live = {*in_use, current.metadata.name, update.metadata.name}
    idle = [one for one in ordered if one.metadata.name not in live]
    return Revisions(
        update,
        current,
        number=number,
        outdated=tuple(idle[: max(0, len(idle) - stateful_set.spec.revision_history_limit)]),
    )


def template_of(revision: ControllerRevision) -> dict[str, Any]:
    template = revision.data["spec"]["template"]
    return {part: value for part, value in template.items() if part not in _REPLACE}


def _current(stateful_set: StatefulSet, ordered: Iterable[ControllerRevision]) -> ControllerRevision | None:
    return next((one for one in ordered if one.metadata.name == stateful_set.status.current_revision), None)


def _data(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template as a strategic merge patch of the set."""
    return {"spec": {"template": {**_REPLACE, **template}}}


def _body(stateful_set: StatefulSet, data: dict[str, Any], number: int) -> dict[str, Any]:
    meta = stateful_set.metadata
    digest = template_hash(data, stateful_set.status.collision_count)
    labels = {**((stateful_set.spec.template.get("metadata") or {}).get("labels") or {}), HASH: digest}
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.name,
        "metadata": {
            "name": f"{meta.name}-{digest}",
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": dict(meta.annotations or {}),
            "ownerReferences": [reference(STATEFUL_SETS, stateful_set)],
        },
        "data": data,
        "revision": number,
    }
