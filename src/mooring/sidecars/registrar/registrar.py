"""Serves the registration of one driver, and knows whether the kubelet has taken it.

The kubelet finds the socket, asks GetInfo, calls the driver's NodeGetInfo, writes CSINode, and only then tells us that
the driver is registered: `is_registered` therefore means that CSINode names the driver. A refusal ends the process, and
leaves the socket where it is: the container starts again and makes a new one, which is what the kubelet tries again
for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mooring.base.clock import Clock
from mooring.base.folders import check_utf8
from mooring.base.log import logger
from mooring.csi.errors import DriverError
from mooring.csi.registration import CSI_PLUGIN, PluginInfo, Registration, RegistrationStatus, methods
from mooring.wire.grpc.server import listening
from mooring.wire.grpc.socket_file import check_length, make_room

_CAUSES: Final[Sequence[tuple[re.Pattern[str], str]]] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (
            r"already registered with a higher",
            (
                "another registrar has registered a driver of this name on the node: remove one of them, or wait "
                "until the old pod has ended"
            ),
        ),
        (
            r"topology value collision",
            "the Node has one of the driver's topology labels with another value: remove that label (kubectl "
            "label node NODE KEY-), or "
            "mend the driver's NodeGetInfo",
        ),
        (
            r"metadata\.labels: Invalid value|topologyKeys.*Invalid value",
            "the driver's topology keys or values are no valid labels, and the kubelet makes labels of the "
            "Node from them: look at its "
            "NodeGetInfo",
        ),
        (
            r"(?i)updates? to .*(nodeID|topologyKeys)|nodeID.*immutable|field is immutable",
            "CSINode still has the driver's former node id or topology keys, which can't be changed in place: "
            "the kubelet has removed the "
            "entry now, so the next try should succeed",
        ),
        (
            r"(?i)forbidden|not allowed to modify labels",
            "the API server refuses what the kubelet wants to write: a node may set labels of kubernetes.io "
            "and k8s.io only where they are "
            "on its list, so topology keys need a domain of the driver's own",
        ),
        (
            r"(?i)deadlineexceeded|context deadline exceeded",
            "the driver did not answer NodeGetInfo within 2 minutes: look at its log",
        ),
        (
            r"dial unix|code = Unavailable|no connection to the CSI driver",
            "the kubelet can't reach the driver at {endpoint} on the host: --kubelet-registration-path must be "
            "the driver's socket as the "
            "host sees it, in a folder that the driver's pod mounts",
        ),
        (
            r"parse node's \S+ annotation|(?i:annotation csi\.volume\.kubernetes\.io/nodeid)",
            (
                "the Node's annotation csi.volume.kubernetes.io/nodeid can't be read as the JSON object that it "
                "must be: remove or mend it"
            ),
        ),
        (
            r"dial tcp",
            (
                "the API server did not answer the kubelet, which wanted to write Node or CSINode: the next try "
                "may succeed"
            ),
        ),
        (
            r"(?i)node ?id.{0,20}(empty|invalid|required)|no node id",
            "the driver gave no node id, or one that CSINode can't hold (1 to 256 characters): look at its NodeGetInfo",
        ),
        (r"code = Unimplemented", "the driver has no node service: only drivers that mount volumes are registered"),
        (r"(?i)NodeGetInfo|rpc error: ", "the driver's NodeGetInfo failed: look at its log"),
    )
)
_log = logger(__name__)
VERSIONS: Final = ("1.0.0",)
"""The CSI versions that the kubelet compares; node-driver-registrar reports the same for every driver."""
SILENCE_S: Final = 30.0
"""How long the kubelet may take to ask before that is worth a line: it looks at its folder once a second."""
UNANSWERED_S: Final = 150.0
"""How long the kubelet may take from its question to its answer: NodeGetInfo alone may take 2 minutes."""


class Registrar:
    """One driver's registration.

    driver_name: as the driver gives it. endpoint: the driver's socket on the host. folder: where the kubelet looks for
    sockets. on_refusal: called when the kubelet refuses; `refusal` is its reason then. socket_name: "" for the one that
    everybody uses. answered: set once the kubelet has registered or refused the driver.
    """

    def __init__(
        self,
        driver_name: str,
        endpoint: str,
        folder: Path,
        *,
        clock: Clock,
        on_refusal: Callable[[], None],
        socket_name: str = "",
    ) -> None:
        self.socket = folder / (socket_name or f"{driver_name}-reg.sock")
        self.refusal = ""
        self.answered = asyncio.Event()
        self._name, self._endpoint = driver_name, endpoint
        self._clock, self._on_refusal = clock, on_refusal
        self._asked = self._asked_by_us = 0
        self.is_registered = False

    async def run(self) -> None:
        """Serves until cancelled; then the socket is removed. Raises ConfigError when it can't be made."""
        check_utf8(self._endpoint)
        check_length(self.socket)
        make_room(self.socket, even_alive=True)
        async with listening(methods(self._info, self._notified), self.socket, mode=0o700, grace_s=0.0):
            _log.info(0, "Registration socket is there", path=str(self.socket))
            await self._mind_the_silence()

    def lost(self) -> str:
        """Why the kubelet can't find it: "" while its socket is there."""
        return "" if self.socket.exists() else "registration socket does not exist"

    async def health(self, timeout_s: float) -> tuple[int, str]:
        """HTTP status and text: whether the socket is there and answers as it should. The driver is not asked."""
        if lost := self.lost():
            return 404, lost
        plugin = Registration(self.socket)
        try:
            name = (await plugin.get_info(timeout_s)).name
            self._asked_by_us += 1
        except DriverError as error:
            return 500, f"failed to call GetInfo: {error}"
        finally:
            await plugin.close()
        return (
            (200, "ok")
            if name == self._name
            else (500, f"invalid driver name: {name}; this is the registrar of {self._name}")
        )

    @property
    def obstacle(self) -> str:
        """The obstacle to the driver's registration, "" once it is registered."""
        if self.is_registered:
            return ""
        if not self._kubelet_has_asked:
            return (
                f"the kubelet has not asked yet: is {self.socket.parent} here its folder plugins_registry "
                "(/var/lib/kubelet/plugins_registry on most hosts)?"
            )
        return (
            "the kubelet has asked, and has not said yet whether it takes the driver: it calls NodeGetInfo at "
            f"{self._endpoint} "
            "on the host, for 2 minutes at the most, and then writes CSINode"
        )

    @property
    def _kubelet_has_asked(self) -> bool:
        return self._asked > self._asked_by_us

    def _info(self) -> PluginInfo:
        _log.info(2, "Asked for the driver", name=self._name, endpoint=self._endpoint)
        self._asked += 1
        return PluginInfo(type=CSI_PLUGIN, name=self._name, endpoint=self._endpoint, supported_versions=VERSIONS)

    async def _notified(self, status: RegistrationStatus) -> None:
        self.answered.set()
        if status.plugin_registered:
            self.is_registered = True
            _log.info(0, "The kubelet has registered the driver", name=self._name)
            return
        self.refusal = status.error
        cause = likely_cause(status.error, self._endpoint)
        log = _log.bind(reason=status.error)
        (log.bind(cause=cause) if cause else log).error(
            "Registration process failed with error, restarting registration container"
        )
        self._on_refusal()

    async def _mind_the_silence(self) -> None:
        """Says once what is missing where the kubelet does not ask, and once where it does not answer."""
        await self._clock.sleep(SILENCE_S)
        if not self._kubelet_has_asked:
            _log.warning("The driver is not registered", reason=self.obstacle)
        await self._clock.sleep(UNANSWERED_S)
        if not self.is_registered:
            _log.warning("The driver is not registered", reason=self.obstacle)
        await asyncio.get_running_loop().create_future()


def likely_cause(error: str, endpoint: str) -> str:
    """The cause behind the text of a kubelet (1.36), and the remedy, "" for none. endpoint: the driver's socket on the
    host.
    """
    found = next((text for pattern, text in _CAUSES if pattern.search(error)), "")
    return found.format(endpoint=endpoint)
