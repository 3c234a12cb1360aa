"""What a pod's object says of it, and the name of its claim."""

from __future__ import annotations

from typing import Any, Final

from mooring.node.layout import inline_volume_id

FINISHED: Final = ("Succeeded", "Failed")
Json = dict[str, Any]


def is_alive(pod: Json) -> bool:
    """True while its volumes are to stay."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in FINISHED


def is_slow(claim: str) -> bool:
    """Of a claim that is slow to read in lives with such."""
    return claim[-1] in "02468"


def inline_handles(pod: Json) -> list[str]:
    return [
        inline_volume_id(pod["metadata"]["uid"], volume["name"])
        for volume in pod["spec"].get("volumes") or ()
        if "csi" in volume
    ]
