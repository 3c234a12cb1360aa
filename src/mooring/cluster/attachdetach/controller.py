"""The attach/detach controller: which volume is to be attached to which node, and what each node is told.

Two queues: volumes on nodes, each of which is decided about for itself, and nodes, whose report of attached volumes is
written as a whole. A third only sends Events to pods whose claims lead to no volume. What the API server does not have
of the controller's state is listed in `memory.py`.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Key
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS
from mooring.base.backoff import BackOff
from mooring.base.log import logger
from mooring.cluster.attachdetach.event_handlers import EventHandlers
from mooring.cluster.attachdetach.identity import (
    ATTACHMENT,
    CLAIM,
    DRIVER,
    NODE,
    OnNode,
    keeps_of_pod,
    keeps_of_volume,
)
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.metrics import AttachDetachMetrics
from mooring.cluster.attachdetach.multi_attach import REMIND_S
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.cluster.attachdetach.reconcile import Reconciler
from mooring.cluster.attachdetach.reports import Reports
from mooring.cluster.attachdetach.unresolved import Unresolved
from mooring.cluster.attachdetach.view import (
    ATTACHMENT_INDEXES,
    CLAIM_INDEXES,
    NODE_INDEXES,
    POD_INDEXES,
    VOLUME_INDEXES,
    View,
)
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventOnce, EventRecorder
from mooring.control.manager import Manager
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.control.slim import always

COMPONENT: Final = "attachdetach-controller"
REPORT_WORKERS: Final = 16
HANGS_S: Final = 1.0
"""A write may hang, as in a webhook that does not answer: after this time it holds up no other volume."""

BACK_OFF: Final = BackOff(0.5, 122.0, 0.02)
"""The back-off of one volume on one node, as upstream's operations have it."""

log = logger(__name__)


class AttachDetach(Manager):
    """The controller, as a program starts it. caches: a share of the program's, None for its own.

    It reads pods, claims, volumes, nodes, CSIDrivers and attachments.
    """

    def __init__(self, runtime: Runtime, options: AttachDetachOptions, *, caches: Caches | None = None) -> None:
        caches = caches or Caches(runtime, "attachdetach")
        pods = caches.of(PODS, keeps=keeps_of_pod, indexes=POD_INDEXES)
        claims = caches.of(PERSISTENT_VOLUME_CLAIMS, keeps=always(CLAIM), indexes=CLAIM_INDEXES)
        volumes = caches.of(PERSISTENT_VOLUMES, keeps=keeps_of_volume, indexes=VOLUME_INDEXES)
        nodes = caches.of(NODES, keeps=always(NODE), indexes=NODE_INDEXES)
        drivers = caches.of(CSI_DRIVERS, keeps=always(DRIVER))
        attachments = caches.of(VOLUME_ATTACHMENTS, keeps=always(ATTACHMENT), indexes=ATTACHMENT_INDEXES)
        stores = (pods.store, claims.store, volumes.store, nodes.store, drivers.store, attachments.store)
        view = self.view = View(*stores, Memory(), Orphans())

        self._places: Controller[OnNode] = Controller(
            runtime,
            "attachdetach-volumes",
            workers=options.workers,
            relief_s=HANGS_S,
            backoff=BACK_OFF,
            label="volume",
            log=log,
            about=lambda key: {"volume": key.unique, "node": key.node},
        )
        self._nodes: Controller[str] = Controller(
            runtime, "attachdetach-nodes", self._report, workers=REPORT_WORKERS, label="node", log=log
        )
        events = EventRecorder(runtime.cluster, COMPONENT, clock=runtime.clock, randomness=runtime.randomness)
        once = EventOnce(events, runtime.clock, REMIND_S)
        unresolved = Unresolved(view, EventOnce(events, runtime.clock, REMIND_S), runtime.clock)
        self._pods: Controller[Key] = Controller(
            runtime, "attachdetach-pods", unresolved.reconcile, workers=1, label="pod", log=log
        )
        super().__init__(caches, self._places, self._nodes, self._pods, first_looks=[self._look])
        metrics = self._metrics = runtime.metrics.once(AttachDetachMetrics)
        self.beside("attachdetach/events", events)
        self._handlers = EventHandlers(view, self._places, self._nodes, self._pods, metrics, runtime.clock)
        self._reconciler = Reconciler(
            runtime,
            view,
            attachments,
            nodes,
            options,
            events,
            once,
            metrics,
            self._nodes.add,
            self._handlers.let_go,
        )
        self._places.reconcile_by(self._reconciler.deciding())
        self._reports = Reports(runtime, view, nodes, self._reconciler.rules, events, self._handlers.report_written)
        self._places.watch(pods, self._handlers.pod_changed)
        self._places.watch(claims, self._handlers.claim_changed)
        self._places.watch(volumes, self._handlers.volume_changed)
        self._nodes.watch(nodes, self._handlers.node_changed)
        self._places.watch(drivers, self._handlers.driver_changed)
        self._places.watch(attachments, self._handlers.attachment_changed)

    async def run(self) -> None:
        """A standby counts nothing."""
        self._metrics.watch(self.view)
        try:
            await super().run()
        finally:
            self._metrics.watch(None)

    async def _look(self) -> None:
        await self._handlers.look_at_all()

    async def _report(self, node: str) -> Result:
        return await self._reports.reconcile(node)
