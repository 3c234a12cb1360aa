"""The API server's objects as the laws look at them: what stands there, and since which version."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.volume_names import attachment_name
from tests.sim.plan import DRIVER
from tests.sim.plane.asked import Asked
from tests.sim.plane.plan import RWX, Plan

Json = dict[str, Any]
Pair = tuple[str, str]
"""A volume's handle, and a node."""
BRIEF_S: Final = 60.0
SILENT_S: Final = 2.0
"""After which a Node's next silence begins in another second of the wall."""
FINISHED: Final = ("Succeeded", "Failed")


@dataclasses.dataclass(slots=True)
class Attachment:
    """version: of its last change; made: of its creation. maker: the process that made it, "" for a hand. error: in its
    status.
    """

    name: str
    attacher: str
    volume: str
    node: str
    attached: bool
    deleting: bool
    version: int
    made: int
    maker: str
    uid: str
    error: str


@dataclasses.dataclass(slots=True)
class NodeStand:
    """A Node as it is stored, and since which version; what a removed Node showed last is kept.

    in_use, listed: names of volumes → the version since which they stand there. came: → the last version that listed
    them. had: names of volumes that a Node before it had in use → since when, and until the one made anew came to list
    anything, None while it does not. unhealthy_s: since when it is not ready or missing, None
    for a healthy one; unhealthy_before_s: the same of the time before healthy_at. made_at, gone_at: versions.
    """

    is_there: bool = True
    in_use: dict[str, int] = dataclasses.field(default_factory=dict)
    listed: dict[str, int] = dataclasses.field(default_factory=dict)
    came: dict[str, int] = dataclasses.field(default_factory=dict)
    had: dict[str, tuple[int, int | None]] = dataclasses.field(default_factory=dict)
    unhealthy_s: float | None = None
    unhealthy_before_s: float | None = None
    healthy_at: int = 0
    tainted: bool = False
    untainted_at: int = 0
    made_at: int = 0
    gone_at: int = 0

    def is_shown_in_use(self, unique: str, seen: int) -> bool:
        """True when who has seen so much knows it to be in use, or to have been when the machine was heard of last."""
        since, until = self.had.get(unique, (math.inf, None))
        return self.in_use.get(unique, math.inf) <= seen or (since <= seen and (until is None or seen < until))


@dataclasses.dataclass(slots=True)
class Wish:
    """A volume on a node. unwanted_s: since when no pod wants it there, None while one does; before: of the time before
    wanted_at.

    wanted_s, wanted_at: when a pod came to want it last, and the version; unwanted_at: the version since which none
    does.

    unwanted_but_for_s: since when no pod wants it but for wishes of less than BRIEF_S, which a watch that was cut need
    not have shown.
    """

    unwanted_s: float | None = 0.0
    unwanted_before_s: float | None = None
    unwanted_but_for_s: float = 0.0
    wanted_s: float = 0.0
    wanted_at: int = 0
    unwanted_at: int = 0


class Stands:
    """pods: by uid. nodes, attachments, volumes: by name. claims: by namespace and name."""

    def __init__(self, plan: Plan, now: Callable[[], float]) -> None:
        self._plan, self._now = plan, now
        self.asked = Asked()
        self.pods: dict[str, Json] = {}
        self.nodes: dict[str, NodeStand] = {}
        self.attachments: dict[str, Attachment] = {}
        self.volumes: dict[str, Json] = {}
        self.claims: dict[tuple[str, str], Json] = {}
        self._ended: dict[str, int] = {}  # by the name of an attachment, the version of its end
        self._versions: dict[str, int] = {}  # of Nodes
        self._single: dict[str, bool] = {}  # by handle, as its volumes say; the last one to say it
        self._pairs: dict[str, Pair] = {}  # by the name of the attachment
        self._wishes: dict[Pair, Wish] = defaultdict(Wish)

    def pair_of(self, attachment: str) -> Pair:
        """What an attachment's name stands for."""
        return self._pairs[attachment]

    def is_silent(self, node: str) -> bool:
        """True for a Node that has not been ready for a while."""
        stand = self.nodes.get(node)
        return (
            stand is not None
            and stand.is_there
            and stand.unhealthy_s is not None
            and self._now() > stand.unhealthy_s + SILENT_S
        )

    @staticmethod
    def _put(table: dict[Any, Json], key: object, new: Json | None) -> None:
        if new is None:
            table.pop(key, None)
        else:
            table[key] = new

    def _of_handle(self, handle: str) -> Iterator[Attachment]:
        for one in self.attachments.values():
            if self._pairs.get(one.name, ("", ""))[0] == handle or self.handle_of_volume(one.volume) == handle:
                yield one

    def _health_changed(self, stand: NodeStand, version: int, new: Json) -> None:
        conditions = new.get("status", {}).get("conditions") or ()
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        if is_ready and stand.unhealthy_s is not None:
            stand.unhealthy_before_s, stand.unhealthy_s, stand.healthy_at = stand.unhealthy_s, None, version
        elif not is_ready and stand.unhealthy_s is None:
            stand.unhealthy_s = self._now()
        tainted = any(one["key"] == OUT_OF_SERVICE_TAINT for one in new["spec"].get("taints") or ())
        if stand.tainted and not tainted:
            stand.untainted_at = version
        stand.tainted = tainted

    def _volume_changed(self, version: int, old: Json | None, new: Json | None) -> None:
        pv = new or old
        assert pv is not None
        self._put(self.volumes, pv["metadata"]["name"], new)
        handle, uid = pv["spec"]["csi"]["volumeHandle"], pv["metadata"]["uid"]
        if new is None:
            self.asked.volume_ends(handle, uid, version)
        else:
            self.asked.volume_stands(handle, uid, new["spec"].get("storageClassName", ""), version)
        for node in self._plan.nodes:
            self._pairs[attachment_name(DRIVER, handle, node)] = handle, node
        if new is not None:
            self._single[handle] = RWX not in new["spec"]["accessModes"]
        self._refresh_wishes(version)

    def handle_of_volume(self, name: str) -> str:
        """Of the volume that the PersistentVolume of this name names now, "" without one."""
        pv = self.volumes.get(name)
        return "" if pv is None else str(pv["spec"]["csi"]["volumeHandle"])

    def handle_of(self, claim: tuple[str, str]) -> str:
        """The handle of the volume that the claim is bound to, "" for none."""
        found = self.claims.get(claim)
        if found is None or found["status"].get("phase") != "Bound":
            return ""
        pv = self.volumes.get(found["spec"].get("volumeName", ""))
        ref = (pv or {}).get("spec", {}).get("claimRef") or {}
        return self.handle_of_volume(found["spec"]["volumeName"]) if ref.get("uid") == found["metadata"]["uid"] else ""

    def wanted(self) -> dict[Pair, list[Json]]:
        """The pods that want each volume on each node."""
        found: dict[Pair, list[Json]] = {}
        for pod in self.pods.values():
            node = pod["spec"].get("nodeName", "")
            if node and is_active(pod):
                for volume in pod["spec"].get("volumes") or ():
                    if handle := self.handle_of(
                        (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
                    ):
                        found.setdefault((handle, node), []).append(pod)
        return found

    def _is_led_to(self, knows: Callable[[str], int], pair: Pair) -> bool:
        """True when who knows so much has been shown all claims and volumes that lead from pods to this volume, and its
        driver.
        """
        volumes = [one for one in self.volumes.values() if one["spec"]["csi"]["volumeHandle"] == pair[0]]
        versions = [int(one["metadata"]["resourceVersion"]) for one in volumes]
        refs = [one["spec"].get("claimRef") or {} for one in volumes]
        claims = [self.claims.get((ref.get("namespace", ""), ref.get("name", ""))) for ref in refs]
        known = [int(one["metadata"]["resourceVersion"]) for one in claims if one is not None]
        is_known = max(versions, default=0) <= knows("persistentvolumes")
        return is_known and max(known, default=0) <= knows("persistentvolumeclaims")

    def _refresh_wishes(self, version: int) -> None:
        wanted = self.wanted()
        for pair in {*wanted, *self._wishes}:
            wish = self._wishes[pair]
            if pair in wanted and wish.unwanted_s is not None:
                wish.unwanted_before_s, wish.unwanted_s, wish.wanted_at = wish.unwanted_s, None, version
                wish.wanted_s = self._now()
            elif pair not in wanted and wish.unwanted_s is None:
                wish.unwanted_s, wish.unwanted_at = self._now(), version
                if wish.unwanted_s - wish.wanted_s >= BRIEF_S:
                    wish.unwanted_but_for_s = wish.unwanted_s


def attachment_of(new: Json, version: int, made: int, maker: str) -> Attachment:
    spec, meta = new["spec"], new["metadata"]
    attached = bool(new.get("status", {}).get("attached"))
    volume = spec["source"].get("persistentVolumeName", "")
    status = new.get("status", {})
    error = str(status.get("attachError") or status.get("detachError") or "")
    return Attachment(
        meta["name"],
        spec["attacher"],
        volume,
        spec["nodeName"],
        attached,
        "deletionTimestamp" in meta,
        version,
        made,
        maker,
        meta["uid"],
        error,
    )


def node_of(pod: Json) -> str:
    """ "" for a pod that has none yet."""
    return str(pod["spec"].get("nodeName", ""))


def is_gone(pod: Json) -> bool:
    """True for one that has finished."""
    return pod["status"].get("phase") in FINISHED and "deletionTimestamp" not in pod["metadata"]


def is_alive(pod: Json) -> bool:
    """True for one that should run."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in FINISHED


def is_active(pod: Json) -> bool:
    """True while it needs its volumes."""
    if pod["status"].get("phase") in FINISHED:
        return False
    running = any(
        "waiting" not in one["state"] and "terminated" not in one["state"]
        for one in pod["status"].get("containerStatuses") or ()
    )
    return "deletionTimestamp" not in pod["metadata"] or running
