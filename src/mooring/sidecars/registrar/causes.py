"""Why the kubelet refused a driver, in words that lead to the next step. Pure: texts of kubelet 1.36 in, one sentence out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_CAUSES: Final[Sequence[tuple[re.Pattern[str], str]]] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (
            r"already registered with a higher",
            "another registrar has registered a driver of this name on the node: remove one of them, or wait until the old pod has ended",
        ),
        (
            r"topology value collision",
            "the Node has one of the driver's topology labels with another value: remove that label (kubectl label node NODE KEY-), or "
            "mend the driver's NodeGetInfo",
        ),
        (
            r"metadata\.labels: Invalid value|topologyKeys.*Invalid value",
            "the driver's topology keys or values are no valid labels, and the kubelet makes labels of the Node from them: look at its "
            "NodeGetInfo",
        ),
        (
            r"(?i)updates? to .*(nodeID|topologyKeys)|nodeID.*immutable|field is immutable",
            "CSINode still has the driver's former node id or topology keys, which can't be changed in place: the kubelet has removed the "
            "entry now, so the next try should succeed",
        ),
        (
            r"(?i)forbidden|not allowed to modify labels",
            "the API server refuses what the kubelet wants to write: a node may set labels of kubernetes.io and k8s.io only where they are "
            "on its list, so topology keys need a domain of the driver's own",
        ),
        (
            r"(?i)deadlineexceeded|context deadline exceeded",
            "the driver did not answer NodeGetInfo within 2 minutes: look at its log",
        ),
        (
            r"dial unix|code = Unavailable|no connection to the CSI driver",
            "the kubelet can't reach the driver at {endpoint} on the host: --kubelet-registration-path must be the driver's socket as the "
            "host sees it, in a folder that the driver's pod mounts",
        ),
        (
            r"parse node's \S+ annotation|(?i:annotation csi\.volume\.kubernetes\.io/nodeid)",
            "the Node's annotation csi.volume.kubernetes.io/nodeid can't be read as the JSON object that it must be: remove or mend it",
        ),
        (r"dial tcp", "the API server did not answer the kubelet, which wanted to write Node or CSINode: the next try may succeed"),
        (
            r"(?i)node ?id.{0,20}(empty|invalid|required)|no node id",
            "the driver gave no node id, or one that CSINode can't hold (1 to 256 characters): look at its NodeGetInfo",
        ),
        (r"code = Unimplemented", "the driver has no node service: only drivers that mount volumes are registered"),
        (r"(?i)NodeGetInfo|rpc error: ", "the driver's NodeGetInfo failed: look at its log"),
    )
)


def likely_cause(error: str, endpoint: str) -> str:
    """The cause behind the kubelet's text, and the remedy; "" when nothing is known. endpoint: the driver's socket on the host."""
    found = next((text for pattern, text in _CAUSES if pattern.search(error)), "")
    return found.format(endpoint=endpoint)
