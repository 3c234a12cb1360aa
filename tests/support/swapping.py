"""A sidecar and the Go program of its name, one after the other under the account that deploy/ gives, each killed in
the midst of its work.

async with swapping("resizer", plane, folder, world.socket) as part:
    async with part.running(is_go=False):
        ...                                    # ends by kill -9
    async with part.running(is_go=True):
        ...
part.nothing_was_refused()
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.rights import NAMESPACE, Manifest, acting_as, deployed, refused

PROGRAMS: Final = {
    "attacher": "csi-attacher",
    "provisioner": "csi-provisioner",
    "resizer": "csi-resizer",
    "snapshotter": "csi-snapshotter",
    "snapshot-controller": "snapshot-controller",
}
"""By their folders in deploy/."""

ELECTION: Final = (
    "--leader-election",
    f"--leader-election-namespace={NAMESPACE}",
    "--leader-election-lease-duration=6s",
    "--leader-election-renew-deadline=5s",
    "--leader-election-retry-period=300ms",
)
"""As the manifests have it, and quick: the next one waits until the Lease of the one before has run out."""


class Part:
    """proxies: of ours and of the Go program, each with all its requests."""

    def __init__(
        self, name: str, manifest: Manifest, proxies: Mapping[bool, FaultProxy], folder: Path, socket: Path | None
    ) -> None:
        self.name, self.manifest, self.proxies = name, manifest, proxies
        self._folder, self._socket, self._numbers = folder, socket, itertools.count(1)

    @contextlib.asynccontextmanager
    async def running(self, *flags: str, is_go: bool) -> AsyncIterator[Program]:
        """The program for the block; it ends by kill -9."""
        program = PROGRAMS[self.name]
        start = [str(binary(program))] if is_go else [sys.executable, "-m", f"mooring.cli.{program.replace('-', '_')}"]
        address = [f"--csi-address={self._socket}"] if self._socket else []
        command = [*start, *address, f"--kubeconfig={self.proxies[is_go].kubeconfig}", "--v=2", *ELECTION, *flags]
        log = self._folder / f"{program}-{next(self._numbers)}-{'go' if is_go else 'ours'}"
        running = Program(command, log, {**os.environ, "POD_NAMESPACE": NAMESPACE})
        try:
            yield running
            running.assert_alive()
        except BaseException as error:
            error.add_note(f"-- {log.name}\n{running.log_tail(60)}")
            raise
        finally:
            running.kill()

    def nothing_was_refused(self) -> None:
        for is_go, proxy in self.proxies.items():
            assert proxy.requests
            assert [] == refused(proxy), (self.name, "Go" if is_go else "ours")


@contextlib.asynccontextmanager
async def swapping(
    name: str, plane: ControlPlane, folder: Path, socket: Path | None = None, *, feature: str = ""
) -> AsyncIterator[Part]:
    """socket: of the driver, for those who call one. feature: as for `deployed`."""
    manifest, places = deployed(name, feature), {is_go: folder / f"{name}-{is_go}" for is_go in (False, True)}
    for place in places.values():
        place.mkdir()
    async with acting_as(manifest, plane, places[False]) as ours, acting_as(manifest, plane, places[True]) as go:
        yield Part(name, manifest, {False: ours, True: go}, folder, socket)
