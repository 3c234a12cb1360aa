"""Ephemeral volumes: a pod that brings a claim or two, the claim that has the name of the first, and its class."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api import binding as names
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.pods import PODS
from mooring.cluster.binder import options
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.options import ProvisionerOptions
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import (
    DRIVER,
    WFFC,
    Json,
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod,
    a_ready_node,
    an_ephemeral_volume,
)
from tests.support.scripted_driver import ScriptedDriver
from tests.support.volume_driver import VolumeDriver

_AT: Final = "2026-01-01T00:00:00Z"
_POD: Final[dict[str, Json | None]] = {
    "waits": {},
    "runs": {"node": "n1", "phase": "Running"},
    "ended": {"node": "n1", "phase": "Succeeded"},
    "deleting": {"node": "n1", "phase": "Running", "deletionTimestamp": _AT, "finalizers": ["stranger/holds"]},
    "absent": None,
}
_OWNER: Final = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-pod", "controller": True}
_HELD: Final = {"finalizers": [names.PVC_PROTECTION], "ownerReferences": [_OWNER]}
_FORMER: Final = {**_HELD, "ownerReferences": [{**_OWNER, "uid": "uid-former"}]}
_CLAIM: Final[dict[str, Json | None]] = {
    "absent": None,
    "own": _HELD,
    "own-deleting": {**_HELD, "deletionTimestamp": _AT},
    "former": _FORMER,
    "former-deleting": {**_FORMER, "deletionTimestamp": _AT},
    "nobodys": {**_HELD, "ownerReferences": None},
    "uncontrolled": {**_HELD, "ownerReferences": [{**_OWNER, "controller": None}]},
}
_CLASS: Final[dict[str, Json | None]] = {"immediate": {}, "delayed": {"volumeBindingMode": WFFC}, "absent": None}
_VOLUMES: Final = ("one", "two", "two-the-other-first")


class EphemeralRoom:
    """claim: the one that the volume `scratch` of the pod names."""

    name = "ephemeral"
    rounds = ()
    space = Space(
        Axis("pod", tuple(_POD)), Axis("claim", tuple(_CLAIM)), Axis("class", tuple(_CLASS)), Axis("volumes", _VOLUMES)
    )

    def bodies(self, state: State) -> list[Json]:
        made = [a_ready_node("n1"), a_csi_node("n1", {DRIVER: "id1"}), a_csi_driver(storageCapacity=False)]
        if (fields := _CLASS[state["class"]]) is not None:
            made.append(a_class("sc", **fields))
        if (fields := _CLAIM[state["claim"]]) is not None:
            made.append(a_claim("pod-scratch", **{"uid": "uid-claim", **fields}))
        if (fields := _POD[state["pod"]]) is not None:
            made.append(a_pod("pod", uid="uid-pod", volumes=map(an_ephemeral_volume, _volumes(state)), **fields))
        return made

    def driver(self, state: State) -> ScriptedDriver:
        return VolumeDriver()

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        driver = world.driver
        info = DriverInfo(DRIVER, "1", frozenset(driver.plugin), frozenset(), frozenset(driver.controller))
        port = InProcessDriver(driver, clock=world.clock)
        provisioner = Provisioner(
            world.runtime, port, info, ProvisionerOptions(worker_threads=1), world.recorder(DRIVER)
        )
        return [
            make_binder(world.runtime, BinderOptions(parts=frozenset(options.PARTS), workers=1)).run(),
            provisioner.run(),
        ]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        claims = {claim["metadata"]["name"]: claim for claim in world.all(PERSISTENT_VOLUME_CLAIMS)}
        is_alive = world.find(PODS, "pod") is not None and state["pod"] in ("waits", "runs")
        is_disputed = (
            False  # then the pod hears of that claim, and gets none of those after it, as from kube-controller-manager
        )
        for volume in _volumes(state):
            name = f"pod-{volume}"
            claim = claims.pop(name, None)
            if not is_alive:
                if claim is not None and (volume != "scratch" or claim["metadata"]["uid"] != "uid-claim"):
                    yield "claim-unwanted", f"{name} was made, and its pod is {state['pod']}"
            elif claim is None:
                if not is_disputed:
                    yield "claim-missing", f"the pod has no {name}, nobody makes it"
            elif _controllers(claim) != ["uid-pod"]:
                is_disputed = True
                if not any(name in told for told in world.told("pod")):
                    yield "silence", f"{name} is of {_controllers(claim) or 'nobody'}, the pod does not hear of it"
        for name in claims:
            yield "claim-unwanted", f"{name} is of no volume of the pod"


def _volumes(state: State) -> tuple[str, ...]:
    return {"one": ("scratch",), "two": ("scratch", "more"), "two-the-other-first": ("more", "scratch")}[
        state["volumes"]
    ]


def _controllers(claim: Json) -> list[str]:
    return [owner["uid"] for owner in claim["metadata"].get("ownerReferences") or () if owner.get("controller")]
