"""The Events for the users of pods: with the kubelet's reasons and texts, each once; and which steps take long.

The kubelet is silent about a call that hangs: its users see a pod that neither starts nor ends. Here the pod gets an
event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from mooring.api.core import ObjectReference, reference_to
from mooring.base.clock import Clock, Instant
from mooring.control.decision import Decision
from mooring.control.events import REPEAT_S, SLACK_S, EventOnce, EventRecorder
from mooring.node.metrics import NodeMetrics
from mooring.node.volumes.decide import Action, Do, refused_by
from mooring.node.volumes.state.actual import ActualState, Step, VolumeState
from mooring.node.volumes.state.desired import Growth, PodUse
from mooring.node.volumes.steps.tools import StepFailed

_HELD: Final = {
    False: ("MountVolume.Setup failed while expanding volume", "FailedMount"),
    True: ("MapVolume.MarkVolumeAsMounted failed while expanding volume", "FailedMapVolume"),
}
"""The step and the reason of Events about pods that wait until a volume has grown, by whether it is a block device."""


_OTHER_KINDS: Final = {Step.EXPAND: "NodeExpandVolume", Step.ATTACH: "AttachVolume"}


class Announcements:
    """Tells the users of this node's pods of problems, as Events."""

    def __init__(self, events: EventRecorder, actual: ActualState, clock: Clock) -> None:
        self._events, self._actual = events, actual
        self._once = EventOnce(events, clock)

    def announce(self, uid: str, about: str, text: str, reason: str = "FailedMount") -> None:
        """A Warning for the pod's users, when the text is another one, and now and then. about: the volume, "" for the
        pod as a whole.
        """
        if (pod := self._actual.pod(uid)) is not None:
            self._once.tell(reference_to(pod, "Pod"), reason, text, about=about)

    def announced_no_more(self, uid: str, about: str) -> None:
        """The problem is over: users hear of it again if it comes again."""
        self._once.forget(uid, about)

    def tell(self, use: PodUse, type: str, reason: str, text: str) -> None:
        """An event for the pod, each time. type: Normal or Warning."""
        if (pod := self._actual.pod(use.uid)) is not None:
            self._events.event(reference_to(pod, "Pod"), type, reason, text)

    def tell_claim(self, growth: Growth, type: str, reason: str, text: str) -> None:
        """An event for a claim that grows, each time. type: Normal or Warning."""
        claim = ObjectReference(
            "v1", "PersistentVolumeClaim", growth.namespace, growth.claim, growth.claim_uid, growth.claim_version
        )
        self._events.event(claim, type, reason, text)

    def forget_pod(self, uid: str) -> None:
        """The pod is gone, and nothing of it is here."""
        self._once.forget(uid)

    # -- of steps

    def refused(self, state: VolumeState, decision: Decision[Action]) -> float | None:
        """Tell pods that they can't have the volume as things are. Return the seconds until the next look: the
        decision's, or to tell it again.
        """
        refused = refused_by(decision)
        for uid, because in refused.pods.items():
            self._announce(state, uid, f"MountVolume.{refused.at} failed", str(because))
        told_again_s = REPEAT_S + SLACK_S if refused.pods else None
        return min((one for one in (decision.after_s, told_again_s) if one is not None), default=None)

    def failed(self, state: VolumeState, do: Do, error: StepFailed) -> None:
        if not error.is_shown:
            return
        held = [uid for uid, one in state.publications.items() if one.is_held] if do.step is Step.EXPAND else []
        kind = _OTHER_KINDS.get(do.step) or _kind(state)
        for uid in held or self._pods_of(state, do):
            step, reason = _HELD[state.volume.is_block] if held else (f"{kind}.{error.step} failed", error.reason)
            self._announce(state, uid, step, str(error), reason)

    def slow(self, state: VolumeState, do: Do, step: str, text: str) -> None:
        for uid in self._pods_of(state, do):
            about = f'{_kind(state)}.{step} of volume "{self._name(state, uid)}" takes long: {text}'
            self.announce(
                uid, state.volume.unique, about, "FailedMapVolume" if state.volume.is_block else "FailedMount"
            )

    def _pods_of(self, state: VolumeState, do: Do) -> list[str]:
        """The pods whose users are to hear of the step."""
        return [do.pod] if do.pod else list(self._actual.desired.uses(state.volume.unique))

    def _announce(self, state: VolumeState, uid: str, step: str, text: str, reason: str = "FailedMount") -> None:
        about = f'{step} for volume "{self._name(state, uid)}" : {text}'
        self.announce(uid, state.volume.unique, about, reason)

    def _name(self, state: VolumeState, uid: str) -> str:
        """The volume's name by the pod's own PersistentVolume: others may name the volume, too."""
        return (self._actual.desired.volume_of(state.volume.unique, uid) or state.volume).spec_name


def _kind(state: VolumeState) -> str:
    """The word for mounting in the events of such a volume."""
    return "MapVolume" if state.volume.is_block else "MountVolume"


SLOW_S: Final = 30.0

NAMES: Final = {
    Step.STAGE: "MountDevice",
    Step.PUBLISH: "SetUp",
    Step.UNPUBLISH: "TearDown",
    Step.UNSTAGE: "UnmountDevice",
    Step.EXPAND: "NodeExpandVolume",
}
"""The names of steps in the kubelet's events."""
BLOCK_NAMES: Final = {
    **NAMES,
    Step.STAGE: "SetUpDevice",
    Step.PUBLISH: "MapPodDevice",
    Step.UNPUBLISH: "UnmapVolume",
    Step.UNSTAGE: "UnmapDevice",
}

_OPERATIONS: Final = {
    Step.STAGE: "volume_mount",
    Step.PUBLISH: "volume_mount",
    Step.UNPUBLISH: "volume_unmount",
    Step.UNSTAGE: "unmount_device",
    Step.EXPAND: "volume_fs_resize",
}
_BLOCK_OPERATIONS: Final = {
    **_OPERATIONS,
    Step.STAGE: "map_volume",
    Step.PUBLISH: "map_volume",
    Step.UNPUBLISH: "unmap_volume",
    Step.UNSTAGE: "unmap_device",
}


class StepWatch:
    """Measures steps, and tells of slow ones. tell: takes a volume, a step, its name and a text for the pods' users."""

    def __init__(self, metrics: NodeMetrics, clock: Clock, tell: Callable[[VolumeState, Do, str, str], None]) -> None:
        self._metrics, self._clock, self._tell = metrics, clock, tell
        self._wanted_since: dict[str, dict[str, Instant]] = {}  # by volume, then by pod; without the pods that have it
        self._staged_in_s: dict[str, float] = {}

    def wanted(self, unique: str, pods: Iterable[str]) -> None:
        """These pods want the volume now, and do not have it."""
        known, now = self._wanted_since.get(unique, {}), self._clock.now()
        self._wanted_since[unique] = {uid: known.get(uid, now) for uid in pods}
        if not self._wanted_since[unique]:
            del self._wanted_since[unique]

    @contextlib.asynccontextmanager
    async def around(self, state: VolumeState, do: Do) -> AsyncIterator[None]:
        """One step: how long it takes, and whether it succeeds."""
        began = self._clock.now()
        telling = asyncio.create_task(self._tell_when_slow(state, do), name=f"node/slow/{state.volume.unique}")
        try:
            yield
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._count(state, do, began, succeeded=False)
            raise
        else:
            self._count(state, do, began, succeeded=True)
        finally:
            telling.cancel()

    def _count(self, state: VolumeState, do: Do, began: Instant, *, succeeded: bool) -> None:
        volume, step = state.volume, do.step
        operation = (_BLOCK_OPERATIONS if volume.is_block else _OPERATIONS).get(step)
        if operation is None:
            return
        now = self._clock.now()
        seconds = now - began
        if step is Step.STAGE and succeeded:  # the rest of the mounting is still to come
            self._staged_in_s[volume.unique] = seconds
            return
        if step is Step.PUBLISH:
            seconds += self._staged_in_s.pop(volume.unique, 0.0)
            since = self._wanted_since.get(volume.unique, {})
            if succeeded and do.pod in since:
                self._metrics.mounted(now - since[do.pod])
        self._metrics.operation(volume.driver, operation, seconds, succeeded=succeeded)

    async def _tell_when_slow(self, state: VolumeState, do: Do) -> None:
        if do.step not in NAMES:
            return
        step = (BLOCK_NAMES if state.volume.is_block else NAMES)[do.step]
        text = (
            f"driver {state.volume.driver} has not answered for {SLOW_S:g} s, and is still waited for; its log may "
            "say why"
        )
        await self._clock.sleep(SLOW_S)
        while not state.is_walked:  # then the driver has answered, and a long walk is told of on its own
            self._tell(state, do, step, text)
            await self._clock.sleep(REPEAT_S + SLACK_S)
