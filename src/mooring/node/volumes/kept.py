"""The volumes that a pod keeps although its claims name others by now: a claim was deleted by force, and made anew under its name. Pure.

A pod keeps a volume that it was given until the pod goes: its containers use that one. Source: kubelet 1.36,
desired_state_of_world_populator.go. Differs: the kubelet mounts the new volume, too, where no container sees it. The agent does not, and
tells the pod's users. It gives up an attempt that never succeeded for the new volume.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mooring.node.volumes import reasons as why
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.state import Stand, VolumeState
from mooring.node.volumes.volume import Volume

Wishes: TypeAlias = Mapping[str, tuple[Volume, PodUse]]
"""The volumes that a pod wants, by unique name."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Had:
    """A volume that may be in the pod's folder, and that none of its claims names.

    in_pod: its name in the pod, "" where only a record tells of it. is_given_up: the pod wanted it once, and got another in its place.
    """

    handle: str
    spec_name: str
    in_pod: str
    is_done: bool
    is_given_up: bool


def beside_what_is_kept(
    uid: str, wanted: Wishes, before: Wishes, here: Iterable[VolumeState], *, has_started: bool, is_whole: bool
) -> tuple[Wishes, list[str]]:
    """The wishes that the pod is to get, and the problems that its users are to hear of.

    before: its wishes until now, as far as this agent knows. here: the volumes that are, or may be, in its folder. has_started: it runs, or
    has run. is_whole: False where it may want more, which could not be found out.
    """
    at_hand = {state.volume.unique: state for state in here}
    settled = {unique: _in_its_folder(uid, at_hand.get(unique), wish) for unique, wish in wanted.items()}
    new = {unique: wish for unique, wish in settled.items() if unique not in at_hand and not wish[0].is_inline}
    problems: list[str] = []
    for unique, state in at_hand.items():
        if unique in wanted or state.volume.is_inline:
            continue
        had = _had(uid, state, before.get(unique))
        replacing = [one for one, wish in new.items() if _replaces(wish, had, has_started=has_started, is_whole=is_whole)]
        problems += [_told(*new[one], had) for one in replacing]
        for one in replacing:
            settled.pop(one, None)
        if not replacing and is_whole and not had.in_pod and not had.is_given_up:
            problems.append(str(why.NoClaimNames(had.handle, had.spec_name)))
    return settled, problems


def _in_its_folder(uid: str, state: VolumeState | None, wish: tuple[Volume, PodUse]) -> tuple[Volume, PodUse]:
    """A volume that the pod has by another PersistentVolume stays where it is."""
    publication = state.publications.get(uid) if state is not None else None
    volume, use = wish
    if publication is None or publication.stand is Stand.ABSENT or publication.spec_name == volume.spec_name:
        return wish
    name = publication.spec_name
    return dataclasses.replace(volume, spec_name=name), dataclasses.replace(use, spec_name=name)


def _had(uid: str, state: VolumeState, before: tuple[Volume, PodUse] | None) -> _Had:
    publication = state.publications.get(uid)
    was_found = publication is not None and publication.was_found
    return _Had(
        state.volume.handle,
        publication.spec_name if publication is not None else before[0].spec_name if before is not None else state.volume.spec_name,
        before[1].volume_name if before is not None else "",
        is_done=was_found or (publication is not None and publication.stand is Stand.DONE),
        is_given_up=before is None and not was_found,
    )


def _replaces(new: tuple[Volume, PodUse], had: _Had, *, has_started: bool, is_whole: bool) -> bool:
    """True for a volume that the pod would get in place of one that it keeps, or in the folder of one that may still be there."""
    volume, use = new
    if volume.spec_name == had.spec_name:
        return True
    if had.is_given_up:
        return False
    if had.in_pod:
        return use.volume_name == had.in_pod and (had.is_done or has_started)
    return is_whole or has_started  # a record does not tell which of the pod's claims the volume was given for


def _told(volume: Volume, use: PodUse, had: _Had) -> str:
    return str(why.ClaimMadeAnew(f"{use.namespace}/{use.claim}", volume.handle, volume.spec_name, had.handle, had.spec_name))
