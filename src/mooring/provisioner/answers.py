"""Is what the driver answered to CreateVolume what was asked for?"""

from __future__ import annotations

import dataclasses

from mooring.csi.proto import csi_pb2 as csi
from mooring.provisioner.outcomes import Failure, State
from mooring.provisioner.requests import Order


@dataclasses.dataclass(frozen=True, slots=True)
class Unusable:
    """The volume is not what was asked for. volume_id: to be deleted, "" when the driver named none."""

    failure: Failure
    volume_id: str = ""


def judged(order: Order, answer: csi.CreateVolumeResponse) -> Unusable | None:
    """None when the volume can be used.

    Differs from external-provisioner, which crashes on an answer without a volume and saves one without a handle again and again.
    """
    volume = answer.volume
    if not answer.HasField("volume") or not volume.volume_id:
        missing = "volume" if not answer.HasField("volume") else "volume_id"
        return Unusable(_failure(f"the CSI driver's answer to CreateVolume has no {missing}", State.FINISHED))
    required = order.required_bytes
    if 0 < volume.capacity_bytes < required:
        why = f"created volume capacity {volume.capacity_bytes} less than requested capacity {required}"
        return Unusable(_failure(why, State.BACKGROUND), volume.volume_id)
    if order.request.HasField("volume_content_source") and not volume.HasField("content_source"):
        return Unusable(_failure("volume content source missing", State.BACKGROUND), volume.volume_id)
    return None


def _failure(error: str, state: State) -> Failure:
    return Failure(error, state, from_driver=True)
