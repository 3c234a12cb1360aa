"""The attach/detach controller: which volume is to be attached to which node, and what each node is told.

Two queues: volumes, by their name in a Node's status, and nodes, whose report of attached volumes is written as a whole. A third queue only
sends Events to pods whose claims lead to no volume. The API server has all of the controller's state, except for times, requests without an
answer, and the Events already sent (`memory.py`).
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Key
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS, CSINode
from mooring.base.log import logger
from mooring.cluster.attachdetach.decision import MarkReports, TakeSteps, VolumeAction
from mooring.cluster.attachdetach.event_handlers import EventHandlers
from mooring.cluster.attachdetach.identity import (
    ATTACHMENT,
    CLAIM,
    DRIVER,
    NODE,
    keeps_of_pod,
    keeps_of_volume,
    node_ids_of,
)
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.metrics import AttachDetachMetrics
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.cluster.attachdetach.reconcile import Reconciler
from mooring.cluster.attachdetach.reports import Reports
from mooring.cluster.attachdetach.unresolved import Unresolved
from mooring.cluster.attachdetach.view import ATTACHMENT_INDEXES, CLAIM_INDEXES, POD_INDEXES, VOLUME_INDEXES, View
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.kube.cache.reader import Reader
from mooring.kube.cache.store import Store

COMPONENT: Final = "attachdetach-controller"
REPORT_WORKERS: Final = 16

log = logger(__name__)


class AttachDetach(Manager):
    """The controller, as a program starts it. caches: a share of the program's, None for its own.

    It reads pods, claims, volumes, nodes, CSIDrivers and attachments; beside an attacher in its process also CSINodes.
    """

    def __init__(self, runtime: Runtime, options: AttachDetachOptions, *, caches: Caches | None = None) -> None:
        caches = caches or Caches(runtime, "attachdetach")
        pods = caches.of(PODS, keeps=keeps_of_pod, indexes=POD_INDEXES)
        claims = caches.of(PERSISTENT_VOLUME_CLAIMS, keeps=always(CLAIM), indexes=CLAIM_INDEXES)
        volumes = caches.of(PERSISTENT_VOLUMES, keeps=keeps_of_volume, indexes=VOLUME_INDEXES)
        nodes = caches.of(NODES, keeps=always(NODE))
        drivers = caches.of(CSI_DRIVERS, keeps=always(DRIVER))
        attachments = caches.of(VOLUME_ATTACHMENTS, keeps=always(ATTACHMENT), indexes=ATTACHMENT_INDEXES)
        own = options.own_attachers
        csi_nodes: Reader[CSINode] = caches.of(CSI_NODES, keeps=always(node_ids_of(own))).store if own else Store()
        stores = (pods.store, claims.store, volumes.store, nodes.store, drivers.store, attachments.store, csi_nodes)
        view = self.view = View(*stores, Memory(), Orphans())
        self._clock = runtime.clock

        deciding = Deciding(self._decide, self._perform)
        self._volumes: Controller[str] = Controller(
            runtime, "attachdetach-volumes", deciding, workers=options.workers, label="volume", log=log
        )
        self._nodes: Controller[str] = Controller(
            runtime, "attachdetach-nodes", self._report, workers=REPORT_WORKERS, label="node", log=log
        )
        events = EventRecorder(runtime.cluster, COMPONENT, clock=runtime.clock, randomness=runtime.randomness)
        unresolved = Unresolved(view, events, runtime.clock)
        self._pods: Controller[Key] = Controller(
            runtime, "attachdetach-pods", unresolved.reconcile, workers=1, label="pod", log=log
        )
        super().__init__(caches, self._volumes, self._nodes, self._pods, first_looks=[self._look])
        metrics = self._metrics = runtime.metrics.once(AttachDetachMetrics)
        self.beside("attachdetach/events", events)
        self._handlers = EventHandlers(view, self._volumes, self._nodes, self._pods, metrics, runtime.clock)
        self._reconciler = Reconciler(runtime, view, attachments, nodes, options, events, metrics)
        self._reports = Reports(runtime, view, nodes, self._reconciler.rules, self._handlers.report_written)
        self._volumes.watch(pods, self._handlers.pod_changed)
        self._volumes.watch(claims, self._handlers.claim_changed)
        self._volumes.watch(volumes, self._handlers.volume_changed)
        self._nodes.watch(nodes, self._handlers.node_changed)
        self._volumes.watch(drivers, self._handlers.driver_changed)
        self._volumes.watch(attachments, self._handlers.attachment_changed)

    async def run(self) -> None:
        """As of Manager. A standby counts nothing, and its own requests begin here."""
        self.view.memory.began = self._clock.now()
        self._metrics.watch(self.view)
        try:
            await super().run()
        finally:
            self._metrics.watch(None)

    async def _look(self) -> None:
        await self._handlers.look_at_all()

    def _decide(self, unique: str) -> Decision[VolumeAction]:
        return self._reconciler.decide(unique)

    async def _perform(self, unique: str, decision: Decision[VolumeAction]) -> Result | None:
        result = None
        for action in decision.actions:
            match action:
                case MarkReports(nodes):
                    for node in nodes:
                        self.view.memory.node(node).mark((unique,))
                        self._nodes.add(node)
                case TakeSteps():
                    result = await self._reconciler.take(decision.because, action)
        return result

    async def _report(self, node: str) -> Result:
        return await self._reports.reconcile(node)
