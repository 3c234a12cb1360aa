"""core/v1 PersistentVolumeClaim."""

from __future__ import annotations

from typing import Final

from mooring.apiserver.causes import Cause
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.rules import claimspec
from mooring.apiserver.rules.protection import protected_by
from mooring.apiserver.schema import Messages

MESSAGES: Final = Messages(
    """
PersistentVolumeClaim: 1 metadata ObjectMeta!, 2 spec PersistentVolumeClaimSpec!, 3 status PersistentVolumeClaimStatus!
PersistentVolumeClaimStatus: 1 phase s, 2 accessModes *s, 3 capacity {q}, 4 conditions *PersistentVolumeClaimCondition@type, 5 allocatedResources {q}, 7 allocatedResourceStatuses {s}, 8 currentVolumeAttributesClassName s?, 9 modifyVolumeStatus ModifyVolumeStatus?
PersistentVolumeClaimCondition: 1 type s!, 2 status s!, 3 lastProbeTime time!, 4 lastTransitionTime time!, 5 reason s, 6 message s
ModifyVolumeStatus: 1 targetVolumeAttributesClassName s, 2 status s!
""",  # noqa: E501
    claimspec.MESSAGES,
)

PROTECTION: Final = "kubernetes.io/pvc-protection"


def _default(new: Json) -> None:
    claimspec.default(new["spec"])
    new["status"].setdefault("phase", "Pending")


def _prepare_create(new: Json, _now: float) -> None:
    claimspec.prepare(new["spec"])
    new["status"] = {"phase": "Pending"}


def _validate(new: Json) -> list[Cause]:
    return claimspec.validate(new["spec"], "spec")


PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    group="",
    version="v1",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    namespaced=True,
    short_names=("pvc",),
    message=MESSAGES["PersistentVolumeClaim"],
    status=Status.WITH_METADATA,
    default=_default,
    admit=protected_by(PROTECTION),
    prepare_create=_prepare_create,
    validate=_validate,
)
