"""Where the log of a program is: the pod that holds its Lease, else the place that a plane without pods names, else the
pods that have its container. Pure.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from mooring.api.meta import annotation
from mooring.api.storage import LOG_PLACE
from mooring.inspect.locks import LOCKS
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command
from mooring.inspect.why.leaders import leader

_POD: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_ON_NODES: Final = "node-driver-registrar"
_COLUMNS: Final = (
    "NODE:.spec.nodeName,NAMESPACE:.metadata.namespace,POD:.metadata.name,CONTAINERS:.spec.containers[*].name"
)
_ON_DEV: Final = "on a mooring dev there are none: its terminal has each call of the driver, with the answer"
_PLACE_LENGTH_MAX: Final = 200


def log_command(scene: Scene | None, program: str, driver: str) -> Command:
    """program: a sidecar, or the kubelet, whose calls the driver's pod on the node answers. scene: None where no Leases
    were read.
    """
    held = leader(scene, program, driver) if scene is not None and program in LOCKS and driver else None
    pod = held.holder.partition("_")[0] if held is not None and held.is_live else ""
    if held is not None and _POD.fullmatch(pod):
        namespace = held.key.partition("/")[0]
        line = f"kubectl -n {namespace} logs {shlex.quote(pod)} --all-containers --prefix --tail=100"
        return Command(
            line,
            f"reads only: the logs of the pod that leads for {driver}: {program}'s, and the driver's own beside it",
        )
    return pods_command(scene, program, driver)


def log_outside_pods(scene: Scene | None) -> Command | None:
    """The place that a plane without pods, as `mooring dev`, names on its CSIDriver: a comment for the shell; nothing
    is to be typed.
    """
    places = (annotation(one, LOG_PLACE) for one in (scene.drivers.values() if scene is not None else ()))
    place = " ".join(next(filter(None, places), "").split())[
        :_PLACE_LENGTH_MAX
    ]  # (somebody's text, which must stay a comment)
    return (
        Command(f"# look at {place}", "it has each call of the driver, with the answer; no pods run here")
        if place
        else None
    )


def pods_command(scene: Scene | None, program: str, driver: str) -> Command:
    """Finds the pods by their container, whatever they are called. scene: shows a plane without pods."""
    if (outside := log_outside_pods(scene)) is not None:
        return outside
    container = program if program in LOCKS else _ON_NODES
    line = f"kubectl get pods -A -o custom-columns={_COLUMNS} | grep {container}"
    of_driver = f" of {driver}" if driver else ""
    return Command(line, f"reads only: finds the pods{of_driver}, for kubectl logs; {_ON_DEV}")
