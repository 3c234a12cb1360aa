"""The gate VolumeAttributesClass, which follows the API server unless a flag sets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mooring.base.log import logger

if TYPE_CHECKING:
    from mooring.kube.cluster import Cluster

_log = logger(__name__)

GATE: Final = "VolumeAttributesClass"


async def is_without_classes(given: Mapping[str, bool], cluster: Cluster) -> bool:
    """True where the API server has no VolumeAttributesClasses, and no flag sets the gate; false also where that is
    unknown.

    given: the gates of the command line. Discovery is asked, not the kind: upstream's RBAC manifests give no right to
    that.
    """
    from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES
    from mooring.kube.errors import ApiError

    if GATE in given:
        return False
    try:
        if await cluster.serves(VOLUME_ATTRIBUTES_CLASSES):
            return False
    except ApiError as error:
        _log.error(
            "could not ask for VolumeAttributesClasses in storage.k8s.io/v1: they are taken to be there", error=error
        )
        return False
    _log.info(0, "the API server has no VolumeAttributesClasses in storage.k8s.io/v1: they are passed over")
    return True
