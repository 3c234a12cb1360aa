"""`mooring driver run module:Class`: a driver of one's own with its registrar and its liveness probe, in one
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import platform
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.base.backoff import BackOff
from mooring.base.clock import LoopClock
from mooring.base.diagnostics import HEALTHZ, READYZ, Diagnostics, Reply, split_address
from mooring.base.errors import ConfigError, first_of
from mooring.base.flagkinds import BOOL, DURATION, FOLDER, SOCKET, STRING, FlagKind
from mooring.base.flags import Parsed, Section, UsageError, flag
from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.base.randomness import Random
from mooring.base.units import format_duration
from mooring.cli.people import run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.conform.book.rule import Breach
    from mooring.driver.sdk import Plugin
    from mooring.sidecars.registrar.registrar import Registrar

_log = logger(__name__)

_AGAIN: Final = BackOff(1.0, 60.0)
_TICK_S: Final = 1.0
_LOOK_S: Final = 2.0


def _read_option(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError("parse error")
    return {name: value}


OPTIONS: Final[FlagKind[Mapping[str, str]]] = FlagKind(
    "name=value",
    _read_option,
    "a name and a value, as in folder=/data",
    lambda _: "",
    merge=lambda one, more: {**one, **more},
)


def _read_mode(text: str) -> int:
    mode = int(text, 8)  # raises ValueError
    if not 0 <= mode <= 0o777:
        raise ValueError("value out of range")
    return mode


MODE: Final[FlagKind[int]] = FlagKind(
    "octal", _read_mode, "file permissions in octal, as in 0660", lambda value: f"{value:04o}"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFlags(ProcessFlags):
    """The flags of `mooring driver run`; those of registrar and probe have the names that they have there."""

    endpoint: str = flag(
        "endpoint", SOCKET, "", "The unix socket to serve on, as in unix:///csi/csi.sock. Empty: $CSI_ENDPOINT."
    )
    options: Mapping[str, str] = flag(
        "option",
        OPTIONS,
        {},
        "An argument for the driver's constructor, as in folder=/data; may be given more than once. "
        "If none gives node_id, that is $NODE_ID, $KUBE_NODE_NAME, or this machine's name.",
    )
    plugin_registration_path: str = flag(
        "plugin-registration-path",
        FOLDER,
        "",
        "The kubelet's folder plugins_registry, as it is mounted here. Empty: the driver is not registered.",
    )
    kubelet_registration_path: str = flag(
        "kubelet-registration-path",
        STRING,
        "",
        "The driver's socket as the host sees it: where the kubelet calls the driver. Empty: as the endpoint.",
    )
    socket_mode: int = flag(
        "socket-mode",
        MODE,
        0o600,
        "The mode of the endpoint's file, which says who may connect: 0660 lets the group of its folder in, "
        "for another user's sidecars.",
    )
    rules: bool = flag(
        "rules",
        BOOL,
        True,
        "Watch the driver's calls, and name in the log each rule of CSI that it breaks: docs/csi-rules.md.",
    )
    grace_s: float = flag("grace-period", DURATION, 20.0, "How long calls in flight may take to end after SIGTERM.")
    http_endpoint: str = flag(
        "http-endpoint",
        STRING,
        "",
        "Where /healthz (the driver's Probe) and /readyz (the kubelet has registered it) are served, as in "
        ":9808. Empty: nowhere.",
        Section.DIAGNOSTICS,
    )
    probe_timeout_s: float = flag(
        "probe-timeout", DURATION, 3.0, "How long the driver may take to answer its Probe.", Section.DIAGNOSTICS
    )


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver run`, the driver first. Gives the exit code."""
    words = [] if not argv or argv[0].startswith("-") else [argv[0]]
    return run_for_people(COMMAND, argv[len(words) :], prog, lambda flags: asyncio.run(_serve(flags, *words)))


def _check(parsed: Parsed[RunFlags]) -> None:
    flags = parsed.flags
    if not (flags.endpoint or os.environ.get("CSI_ENDPOINT")):
        raise ConfigError(
            "endpoint: required, as in --endpoint=unix:///csi/csi.sock or CSI_ENDPOINT=unix:///csi/csi.sock"
        )
    if flags.kubelet_registration_path and not flags.plugin_registration_path:
        raise ConfigError(
            "kubelet-registration-path: of no use without --plugin-registration-path, the kubelet's folder "
            "plugins_registry"
        )
    for name, value in (("grace-period", flags.grace_s), ("probe-timeout", flags.probe_timeout_s)):
        if value < 0 or (value == 0 and name == "probe-timeout"):
            raise ConfigError(f"{name}: must be greater than zero, as in 3s; got {format_duration(value)}")
    if flags.http_endpoint:
        try:
            split_address(flags.http_endpoint)
        except ConfigError as error:
            raise ConfigError(f"http-endpoint: {error}") from None


COMMAND: Final[Command[RunFlags]] = Command(
    RunFlags,
    check=_check,
    about="Serves a driver that is a Python class, registers it with the kubelet, and answers liveness probes, all "
    "in one process.",
    example="mooring driver run shelf:Shelf --endpoint unix:///csi/csi.sock \\\n"
    "  --option shelf=/data --plugin-registration-path /registration \\\n  --http-endpoint :9808",
)


async def _serve(flags: RunFlags, words: str = "") -> int:
    from mooring.base.stopping import unless_stopped
    from mooring.driver.loading import load, story_of
    from mooring.driver.server import check_identity, serving

    if not words:
        raise UsageError("the driver is missing: mooring driver run module:Class [flags]")
    try:
        plugin = load(words, flags.options, _node())
    except ConfigError:
        raise
    except Exception as error:  # whatever its author's code raises
        raise ConfigError(story_of(words, error)) from error
    if flags.plugin_registration_path and not plugin.serves("Node"):
        raise ConfigError(
            f"{words} has no node service, and the kubelet registers no driver without: drop --plugin-registration-path"
        )
    endpoint = flags.endpoint or os.environ["CSI_ENDPOINT"]
    check_identity(plugin)
    async with (
        _watched(plugin) if flags.rules else contextlib.nullcontext(plugin) as driver,
        serving(driver, endpoint, socket_mode=flags.socket_mode, grace_s=flags.grace_s) as socket,
    ):
        await unless_stopped(_beside(flags, plugin, socket))
    return 0


@contextlib.asynccontextmanager
async def _watched(plugin: Plugin) -> AsyncGenerator[object, None]:
    """The driver under the rules of CSI: the log names each that it breaks, and at the end all of them."""
    from mooring.conform.running_time import running_time
    from mooring.conform.watched import Breaches, WatchedMethods

    async with running_time(LoopClock(), _TICK_S) as ran:
        breaches = Breaches(_tell, sees_mounts=True, now=ran.now)
        yield WatchedMethods(plugin, breaches.watch_at_proxy(where=""))
    if summary := list(breaches.summary()):
        _log.warning(summary[0].rstrip(":"), rules=Lines("\n".join(summary[1:])))


def _tell(breach: Breach) -> None:
    kubernetes, mend = breach.rule.kubernetes, breach.rule.mend
    say = _log.warning if breach.rule.is_warning else _log.error
    say("The driver breaks a rule of CSI", breach=breach.line, kubernetes=kubernetes, mend=mend)


def _node() -> str:
    """The driver's id for the node that it runs on, unless an option gives one: as manifests set it, else the machine's
    name.
    """
    return os.environ.get("NODE_ID") or os.environ.get("KUBE_NODE_NAME") or platform.node().lower()


async def _beside(flags: RunFlags, plugin: Plugin, socket: Path) -> None:
    """Registrar and probe, until cancelled. Raises ConfigError."""
    registration = _Registration(
        plugin.name, flags.kubelet_registration_path or str(socket), flags.plugin_registration_path
    )
    try:
        async with asyncio.TaskGroup() as group:
            if flags.plugin_registration_path:
                group.create_task(registration.run(), name="driver/registrar")
            if flags.http_endpoint:
                group.create_task(_answer_probes(flags, socket, registration), name="driver/probe")
            await asyncio.get_running_loop().create_future()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from None


async def _answer_probes(flags: RunFlags, socket: Path, registration: _Registration) -> None:
    """The probe asks over the socket, as the kubelet's calls come: it tells of a server that answers no more, too."""
    from mooring.sidecars.livenessprobe.probe import Prober

    prober = Prober(str(socket), clock=LoopClock(), timeout_s=flags.probe_timeout_s)

    async def live() -> Reply:
        return Reply(*await prober.health())

    async def ready() -> Reply:
        obstacle = registration.obstacle if flags.plugin_registration_path else ""
        return Reply(503, f"not ready: {obstacle}\n") if obstacle else Reply(200, "ok")

    server = Diagnostics({HEALTHZ: live, READYZ: ready}, any_method=True)
    await server.start(flags.http_endpoint)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await server.close()
        await prober.close()


class _Registration:
    """The driver's registration with the kubelet, made anew after each refusal, and where its socket was removed:
    the driver goes on meanwhile.

    Differs from node-driver-registrar, which ends its container: in this process that would cut off the driver's calls.
    """

    def __init__(self, driver_name: str, endpoint: str, folder: str) -> None:
        self._driver_name, self._endpoint, self._folder = driver_name, endpoint, Path(folder)
        self._clock, self._randomness = LoopClock(), Random()
        self._registrar: Registrar | None = None

    @property
    def obstacle(self) -> str:
        """The obstacle to the driver's registration, "" when it is registered."""
        if self._registrar is None:
            return "the registration has not begun, or was refused: see the log"
        return self._registrar.lost() or self._registrar.obstacle

    async def run(self) -> None:
        """Until cancelled. Raises ConfigError."""
        refusals = 0
        while True:
            if await self._until_refused():
                refusals += 1
                await self._clock.sleep(_AGAIN.jittered_s(refusals, self._randomness))

    async def _until_refused(self) -> bool:
        """True once the kubelet has refused; False where the socket is gone, and a folder for the next one is there."""
        from mooring.sidecars.registrar.registrar import Registrar

        refused = asyncio.Event()
        self._registrar = Registrar(
            self._driver_name, self._endpoint, self._folder, clock=self._clock, on_refusal=refused.set
        )
        try:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self._registrar.run(), name="driver/registration")
                await self._clock.sleep(_LOOK_S)
                while not (refused.is_set() or self._registrar.lost()):
                    await self._clock.sleep(_LOOK_S)
                serving.cancel()
        finally:
            self._registrar = None
        if refused.is_set():
            return True
        _log.warning("The registration socket was removed, and is made anew", folder=str(self._folder))
        while not self._folder.is_dir():
            await self._clock.sleep(_LOOK_S)
        return False
