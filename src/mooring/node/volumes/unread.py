"""Places on the disk of which no record can be read that says whose volume is there: any volume may be, that is not known to be another.

As long as a place is in doubt, no volume that may be there is unstaged, or leaves the Node's list of volumes in use: it may be mounted.
A place is no doubt any more once its record can be read, it is empty, or a pod that wants a volume there has told which one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping

from mooring.node.layout import escaped
from mooring.node.volumes.state import Publication, Stand, VolumeState


@dataclasses.dataclass(slots=True)
class Places:
    """in_pods: by a pod's uid, names of volumes' folders. devices: by the name of a raw device's folder, the pods it may be mapped for."""

    in_pods: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    devices: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


class Unread:
    """changed: called when a place is no doubt any more."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._places, self._changed = Places(), changed

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of raw devices' folders."""
        return tuple(self._places.devices)

    def begin(self, places: Places) -> None:
        self._places = places

    def pod_was_read(self, uid: str, found: Mapping[str, frozenset[str]]) -> None:
        """The pod's folder was looked at again. found: what is in doubt there now."""
        if (folders := found.get(uid, frozenset())) != self._places.in_pods.pop(uid, frozenset()):
            self._changed()
        if folders:
            self._places.in_pods[uid] = folders

    def device_was_read(self, folder: str) -> None:
        """The raw device's record can be read by now, or nothing of it is left."""
        if self._places.devices.pop(folder, None) is not None:
            self._changed()

    def may_hold(self, spec_names: Collection[str], *, is_block: bool | None = None) -> bool:
        """True while some place may be a volume's of these names. spec_names: empty for one of which no name is known; it may be any.

        is_block: None for a volume of which that is not known.
        """
        folders = {escaped(name) for name in spec_names}
        return any(not folders or folder in folders for folder in self._folders(is_block))

    def settle(self, state: VolumeState, spec_names: Mapping[str, str]) -> None:
        """Pods tell whose volume is in the places of its name: it counts as found there. spec_names: by the pod's uid."""
        if state.volume.is_block:
            self._settle_device(state)
            return
        for uid, spec_name in spec_names.items():
            folders, folder = self._places.in_pods.get(uid, frozenset()), escaped(spec_name)
            if folder in folders:
                state.publications.setdefault(uid, Publication(spec_name, Stand.UNCERTAIN, was_found=True))
                self.pod_was_read(uid, {uid: folders - {folder}})

    def _settle_device(self, state: VolumeState) -> None:
        spec_name = state.volume.spec_name
        if (pods := self._places.devices.get(escaped(spec_name))) is None:
            return
        state.may_be_staged = True
        state.device = Stand.UNCERTAIN if state.device is Stand.ABSENT else state.device
        for uid in pods:
            state.publications.setdefault(uid, Publication(spec_name, Stand.UNCERTAIN, was_found=True))
        self.device_was_read(escaped(spec_name))

    def _folders(self, is_block: bool | None) -> Iterator[str]:
        if is_block is not True:
            for folders in self._places.in_pods.values():
                yield from folders
        if is_block is not False:
            yield from self._places.devices
