"""Carries out decisions about claims and volumes, one write after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key
from mooring.cluster.binder import edits
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.metrics import BindingMetrics
from mooring.cluster.binder.reasons import EventText
from mooring.cluster.binder.view import View
from mooring.cluster.binder.volumes import decision as d
from mooring.cluster.binder.volumes.decision import Step
from mooring.control.decision import Failed
from mooring.control.result import Stale


class Reconciler:
    """wake_claim: puts a claim into its queue. announcer: tells users. All methods raise ApiError, Failed, Stale."""

    def __init__(
        self,
        view: View,
        caches: BindingCaches,
        announcer: Announcer,
        metrics: BindingMetrics,
        wake_claim: Callable[[Key], None],
    ) -> None:
        self._view, self._announcer, self._metrics, self._wake_claim = view, announcer, metrics, wake_claim
        self._claims, self._volumes, self._classes = caches.whole_claims, caches.whole_volumes, caches.whole_classes

    async def on_claim(self, claim: PersistentVolumeClaim, actions: Iterable[d.Write]) -> d.Absent:
        """Write a claim's actions. claim: as the decision saw it. Return what the API server does not have."""
        absent = d.Absent()
        for action in actions:
            match action:
                case d.Bind(pv_name, steps):
                    await self._bind(claim, pv_name, steps)
                case d.SetClass(class_name):
                    await self._set_class(claim, class_name)
                case d.Ask(provisioner):
                    await self._ask(claim, provisioner)
                case d.SetClaimPhase(phase):
                    await self._claims.put(claim, edits.set_claim_phase(phase), "status")
                case d.LookUpClass(name):
                    absent = d.Absent(class_name="" if await self._classes.refresh(Key("", name)) is not None else name)
                case d.LookUpVolume(name):
                    absent = d.Absent(pv_name="" if await self._volumes.refresh(Key("", name)) is not None else name)
                case d.SetVolumePhase() | d.GiveBack() | d.LookUpClaim() | d.WakeClaim():
                    raise AssertionError(f"no action for a claim: {action}")
        return absent

    async def _set_class(self, claim: PersistentVolumeClaim, class_name: str) -> None:
        try:
            await self._claims.put(claim, edits.set_class(class_name))
        except Failed:
            self._metrics.retroactive.inc()
            self._metrics.retroactive_errors.inc()
            raise
        self._metrics.retroactive.inc()

    async def _ask(self, claim: PersistentVolumeClaim, provisioner: str) -> None:
        try:
            await self._claims.put(claim, edits.ask(provisioner))
        except Failed as failure:
            self._metrics.failed(provisioner, "provision")
            event = EventText("Warning", "ProvisioningFailed", f"Error saving claim: {failure.__cause__}")
            self._announcer.tell(reference_to(claim, "PersistentVolumeClaim"), event)
            raise

    async def _bind(self, claim: PersistentVolumeClaim, pv_name: str, steps: tuple[Step, ...]) -> None:
        pv = self._view.volumes.get(pv_name)
        if pv is None:
            raise Stale(f'PersistentVolume "{pv_name}" is no more')
        for step in steps:
            match step:
                case Step.CLAIM_VOLUME:
                    pv = await self._volumes.put(pv, edits.claim_volume(claim))
                case Step.MARK_VOLUME:
                    pv = await self._volumes.put(pv, edits.set_volume_phase("Bound"), "status")
                case Step.NAME_VOLUME:
                    claim = await self._claims.put(claim, edits.name_volume(pv_name))
                case Step.MARK_CLAIM:
                    claim = await self._claims.put(claim, edits.mark_claim(pv), "status")

    async def on_volume(self, pv: PersistentVolume, actions: Iterable[d.Write]) -> str:
        """Write a volume's actions. pv: as the decision saw it. Return the uid of a claim that is gone, "" for none."""
        gone_uid = ""
        for action in actions:
            match action:
                case d.SetVolumePhase(phase):
                    pv = await self._volumes.put(pv, edits.set_volume_phase(phase), "status")
                case d.GiveBack(whole):
                    pv = await self._volumes.put(pv, edits.give_back(whole=whole))
                case d.LookUpClaim(key, uid):
                    found = await self._claims.refresh(key)
                    gone_uid = "" if found is not None and found.metadata.uid == uid else uid
                case d.WakeClaim(key):
                    self._wake_claim(key)
                case d.Bind() | d.SetClass() | d.Ask() | d.SetClaimPhase() | d.LookUpClass() | d.LookUpVolume():
                    raise AssertionError(f"no action for a volume: {action}")
        return gone_uid
