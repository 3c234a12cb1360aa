"""Claims of ephemeral volumes: the pod has the template, the claim belongs to the pod and is deleted with it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.binding import claim_name_of, is_finished, not_owner_text, owns
from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, is_deleting
from mooring.api.pods import Pod, Volume
from mooring.cluster.binder import reasons as why
from mooring.control.decision import Decision


class CreateClaim(msgspec.Struct, frozen=True):
    """The claim of one of the pod's ephemeral volumes."""

    volume_name: str
    body: dict[str, Any]


def decide_pod(pod: Pod, claim_of: Callable[[Key], PersistentVolumeClaim | None]) -> Decision[CreateClaim]:
    """Create the claims that a pod lacks. A pod that is being deleted or has ended needs none."""
    if is_deleting(pod) or is_finished(pod):
        return Decision(why.ClaimsNeeded(0))
    actions: list[CreateClaim] = []
    for volume in pod.spec.volumes or ():
        if volume.ephemeral is None or volume.ephemeral.volume_claim_template is None:
            continue
        claim = claim_of(Key(pod.metadata.namespace, claim_name_of(pod, volume)))
        if claim is None:
            actions.append(CreateClaim(volume.name, _body(pod, volume)))
        elif not owns(pod, claim):
            foreign = why.ForeignClaim(f"ephemeral volume {volume.name}: {not_owner_text(pod, claim)}")
            return Decision(foreign, tuple(actions), foreign, uid=pod.metadata.uid)
    return Decision(
        why.ClaimsNeeded(len(actions)),
        tuple(actions),
        done="made the claims of ephemeral volumes",
        uid=pod.metadata.uid,
    )


def refused(volume_name: str, claim_name: str, error: str) -> str:
    """The text for users that a claim could not be created."""
    return f"ephemeral volume {volume_name}: create PVC {claim_name}: {error}"


def _body(pod: Pod, volume: Volume) -> dict[str, Any]:
    assert volume.ephemeral is not None
    template = volume.ephemeral.volume_claim_template
    assert template is not None
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
    meta: dict[str, Any] = {"name": claim_name_of(pod, volume), "namespace": pod.metadata.namespace}
    for field, given in (("labels", template.metadata.labels), ("annotations", template.metadata.annotations)):
        if given:
            meta[field] = dict(given)
    meta["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": msgspec.to_builtins(template.spec),
    }
