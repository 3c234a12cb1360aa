"""The events about a volume's steps for the users of pods: with the kubelet's reasons and texts, each once."""

from __future__ import annotations

from typing import Final

from mooring.control.events import REPEAT_S, SLACK_S
from mooring.node.volumes.actual import ActualState
from mooring.node.volumes.decide import Decision, Step
from mooring.node.volumes.state import VolumeState
from mooring.node.volumes.step_tools import StepFailed

_HELD: Final = {
    False: ("MountVolume.Setup failed while expanding volume", "FailedMount"),
    True: ("MapVolume.MarkVolumeAsMounted failed while expanding volume", "FailedMapVolume"),
}
"""For pods that are held for the size of a volume, a device's or another's."""


_OTHER_KINDS: Final = {Step.EXPAND: "NodeExpandVolume", Step.ATTACH: "AttachVolume"}


class Announcements:
    def __init__(self, actual: ActualState) -> None:
        self._actual = actual

    def refused(self, state: VolumeState, decision: Decision) -> float | None:
        """Pods that can't have the volume as things are. Seconds until the next look: the decision's, or to tell it again."""
        for uid, because in decision.refused.items():
            self._announce(state, uid, f"MountVolume.{decision.refused_at} failed", str(because))
        told_again_s = REPEAT_S + SLACK_S if decision.refused else None
        return min((one for one in (decision.after_s, told_again_s) if one is not None), default=None)

    def failed(self, state: VolumeState, decision: Decision, error: StepFailed) -> None:
        if not error.is_told:
            return
        held = [uid for uid, one in state.publications.items() if one.is_held] if decision.step is Step.EXPAND else []
        kind = _OTHER_KINDS.get(decision.step) or _kind(state)
        for uid in held or self._pods_of(state, decision):
            step, reason = _HELD[state.volume.is_block] if held else (f"{kind}.{error.step} failed", error.reason)
            self._announce(state, uid, step, str(error), reason)

    def slow(self, state: VolumeState, decision: Decision, step: str, text: str) -> None:
        for uid in self._pods_of(state, decision):
            about = f'{_kind(state)}.{step} of volume "{self._name(state, uid)}" takes long: {text}'
            self._actual.announce(uid, state.volume.unique, about, "FailedMapVolume" if state.volume.is_block else "FailedMount")

    def _pods_of(self, state: VolumeState, decision: Decision) -> list[str]:
        """The pods whose users are to hear of the step."""
        return [decision.pod] if decision.pod else list(self._actual.desired.uses(state.volume.unique))

    def _announce(self, state: VolumeState, uid: str, step: str, text: str, reason: str = "FailedMount") -> None:
        about = f'{step} for volume "{self._name(state, uid)}" : {text}'
        self._actual.announce(uid, state.volume.unique, about, reason)

    def _name(self, state: VolumeState, uid: str) -> str:
        """As the pod's own PersistentVolume has it: others may name the volume, too."""
        return (self._actual.desired.volume_of(state.volume.unique, uid) or state.volume).spec_name


def _kind(state: VolumeState) -> str:
    """What mounting is called in the events of such a volume."""
    return "MapVolume" if state.volume.is_block else "MountVolume"
