"""Ownership of claims with immediate binding: no scheduler chooses their node, so the nodes agree by writing to the
claim.

Each node waits for a random time, then asks its driver for room, then writes its name into the claim; the API server
lets one of them be the first. Waiting costs a timer, not a worker; external-provisioner sleeps in a worker and polls
the claim meanwhile.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.core import PersistentVolumeClaim
from mooring.api.storage import StorageClass
from mooring.base.clock import in_turns
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.result import Result
from mooring.control.slim import changed
from mooring.kube.cache.informer import Cause, Change
from mooring.sidecars.provisioner.claims.reconcile import look_up
from mooring.sidecars.provisioner.claims.view import Looked, View
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.local_node import reasons as why
from mooring.sidecars.provisioner.local_node.decide import (
    AskForRoom,
    AwaitRoom,
    BecomeOwner,
    LookUp,
    decide_ownership,
    obstacle,
)
from mooring.sidecars.provisioner.local_node.reconcile import Reconciler
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import BY_CLASS
from mooring.sidecars.provisioner.model.topology import Segment

log = logger(__name__)

WORKERS_MAX: Final = 10


class Race(msgspec.Struct):
    """The memory of one claim that is free for every node."""

    #: How often another node was quicker to write.
    lost: int = 0
    #: The driver's last answer was that it has too little room.
    lacks_room: bool = False


class ClaimOwnership:
    """view: the provisioner's own."""

    def __init__(self, env: Environment, view: View) -> None:
        runtime, options, caches = env.runtime, env.options, env.caches
        assert options.node is not None
        self._node = options.node
        self._cluster, self._randomness, self._secrets = runtime.cluster, runtime.randomness, env.secrets
        self._claims, self._view = caches.claims, view
        self._reconciler = Reconciler(env, options.node.node_name)
        self._races: dict[str, Race] = {}
        self.controller: Controller[str] = Controller(
            runtime,
            "bids",  # a metric's label, kept
            self._reconcile,
            workers=min(WORKERS_MAX, options.worker_threads),
            backoff=options.backoff,
            label="uid",
            log=log,
        )
        env.bus.subscribe(topics.ROOM_FREED, self._room_freed)
        self.controller.watch(caches.claims, self._claim_changed)
        self.controller.watch(caches.classes, self._class_changed)

    async def look_at_all(self) -> None:
        """A term begins."""
        async for claim in in_turns(self._claims.store.values()):
            if obstacle(self._view, claim) is None:
                self._wait_for_turn(claim.metadata.uid)

    # -- the turns of claims

    def _room_freed(self, *_: Segment) -> None:
        """A volume of this node was deleted: claims for which there was no room are worth a try."""
        for uid, race in self._races.items():
            if race.lacks_room:
                self._wait_for_turn(uid)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if change.new is None or obstacle(self._view, change.new) is not None:
            self._races.pop(change.object.metadata.uid, None)
        elif change.cause is Cause.RESYNC or changed(change.old, change.new):
            self._wait_for_turn(change.new.metadata.uid)

    def _class_changed(self, change: Change[StorageClass]) -> None:
        """Wake the claims that were waiting for the class."""
        if change.old is None and change.new is not None:
            for claim in self._claims.store.by(BY_CLASS, change.new.metadata.name):
                if obstacle(self._view, claim) is None:
                    self._wait_for_turn(claim.metadata.uid)

    def _wait_for_turn(self, uid: str) -> None:
        self.controller.add_after(uid, self._turn_s(uid))

    def _turn_s(self, uid: str) -> float:
        """The more often others were quicker so far, the longer the wait; between two nodes a random delay decides."""
        lost = self._races[uid].lost if uid in self._races else 0
        longest_s = min(self._node.base_delay_s * 2.0 ** min(lost, 30), self._node.max_delay_s)
        return max(0.0, longest_s - self._randomness.uniform(0.0, self._node.base_delay_s))

    # -- one turn

    async def _reconcile(self, uid: str) -> Result:
        """`Deciding` would begin each step anew; here the answers of one turn last until its end."""
        looked = Looked()
        room: bool | None = None
        while True:
            decision = decide_ownership(self._view, uid, looked, room)  # no await between this and the next step
            self.controller.explain(uid, decision.because)
            for action in decision.actions:
                match action:
                    case LookUp(wanted):
                        await look_up(self._cluster, self._secrets, wanted, looked)
                    case AskForRoom():
                        room = await self._reconciler.has_room(action)
                    case BecomeOwner(claim):
                        return await self._become_owner(uid, claim)
                    case AwaitRoom():
                        self._race(uid).lacks_room = True
            if not decision.again:
                break
        if not decision.actions:
            self._races.pop(uid, None)
        return Result(decision.because, decision.done)

    async def _become_owner(self, uid: str, claim: PersistentVolumeClaim) -> Result:
        because = await self._reconciler.become_owner(claim)
        if because is None:
            self._races.pop(uid, None)
            return Result(why.BecomesOwner(self._node.node_name))
        race = self._race(uid)
        race.lost, race.lacks_room = race.lost + 1, False
        return Result(because, after_s=self._turn_s(uid))

    def _race(self, uid: str) -> Race:
        return self._races.setdefault(uid, Race())
