"""Asks a driver: each call is judged by the book, and what it may have made is remembered until it is deleted."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.base.text import shortened, visible
from mooring.conform.abilities import Abilities
from mooring.conform.check import NotApplicable, Stopped
from mooring.conform.disk import Disk
from mooring.conform.finding import Finding
from mooring.conform.made import Made
from mooring.conform.options import Options
from mooring.csi.book.errors import REFUSED, REVIVED, STILL_ABORTED
from mooring.csi.book.rule import Breach, Rule
from mooring.csi.book.snapshots import DELETE_ABSENT as NO_SNAPSHOT
from mooring.csi.book.subject import named_by
from mooring.csi.book.volumes import DELETE_ABSENT
from mooring.csi.client import Client
from mooring.csi.driver import Call, Driver, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import scrubbed
from mooring.wire.grpc.codes import Code, go_name

AGAIN_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
"""The pauses before a call is made again that was answered with Aborted or Unavailable."""
_LINE_END: Final = "\n  "
_TOLD_BYTES_MAX: Final = 2_000
_PASSING: Final = frozenset({Code.ABORTED, Code.UNAVAILABLE})
_OF_THEIR_CHECKS: Final = frozenset({DELETE_ABSENT, NO_SNAPSHOT})
"""While a run cleans up, NotFound says that the object is gone."""


class Program(Protocol):
    """A driver that this run has started."""

    @property
    def has_ended(self) -> bool:
        """By itself."""

    async def kill(self) -> None:
        """At once."""

    async def restart(self) -> None:
        """Kills it at once, and starts it again. Raises OSError, and ConfigError when it does not serve again."""

    def last_words(self) -> str:
        """The end of its output."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a call. breaches: whether the book has found something in it."""

    response: Any
    error: DriverError | None
    breaches: bool

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def code(self) -> int:
        return Code.OK if self.error is None else self.error.code


def told(text: str, request: Message | None = None) -> str:
    """A driver's words, for one line of any output: without what moves a cursor, without the request's secrets, and not endless."""
    return shortened(visible(text if request is None else scrubbed(text, request)), _TOLD_BYTES_MAX)


class Asker:
    """One run's. driver: a client that the book watches, and that tells `breach`. clock: of its pauses.

    program: None for a driver that somebody else runs.
    """

    def __init__(self, driver: Client, options: Options, clock: Clock, program: Program | None) -> None:
        self._driver, self.options, self._clock, self.program = driver, options, clock, program
        self.abilities = Abilities(frozenset())
        self.randomness = Random(options.seed)
        self.made = Made()
        self.findings: list[Finding] = []
        self.disk: Disk | None = None
        """Under the driver's data, where this run has made one."""
        self.on_progress: Callable[[str], None] = lambda text: None
        """Is told how far a long check is."""
        self.is_down = False
        """The driver was killed, and did not start again."""
        self.check = ""
        """The name of the check under way."""
        self.rule: Rule | None = None
        """The one that this check asks about."""
        self.count = 0
        """Breaches so far, each of them."""
        self.broken: dict[str, set[str]] = {}
        """The numbers of the rules that each check has seen broken, by the check's name."""
        self._is_silent = False
        self._reviving = asyncio.Lock()
        self._names = 0
        self._shared: csi.Volume | None = None
        self._folders: list[Path] = []

    # -- what is found

    def breach(self, breach: Breach) -> None:
        """The book has found something. Of all checks that meet a broken rule, the rule's own has the finding; without it, the first."""
        if self._is_silent or (self.rule is None and breach.rule in _OF_THEIR_CHECKS):
            return
        self.count += 1
        self.broken.setdefault(self.check, set()).add(breach.rule.number)
        breach = dataclasses.replace(breach, subject=told(breach.subject), found=told(breach.found))
        finding = Finding(breach, self.check, breach.rule is self.rule)
        known = next((number for number, one in enumerate(self.findings) if one.key == finding.key), None)
        if known is None:
            self.findings.append(finding)
        elif finding.is_own and not self.findings[known].is_own:
            self.findings[known] = finding

    @contextlib.contextmanager
    def silently(self) -> Iterator[None]:
        """Nothing is found while the block runs."""
        before, self._is_silent = self._is_silent, True
        try:
            yield
        finally:
            self._is_silent = before

    def finds(self, rule: Rule, rpc: Rpc[Any, Any], request: Any, found: str) -> None:
        """A check has found something."""
        about = named_by(rpc, request)
        self.breach(Breach(rule, rpc.name, str(about or ""), scrubbed(found, request), request=request))

    # -- calls

    async def ask(self, rpc: Rpc[Any, Any], request: Any) -> Outcome:
        """One call."""
        request, before = self._with_secrets(rpc, request), self.count
        key = self.made.began(rpc, request)
        try:
            response = await self._driver.invoke(rpc, request, Call(self.options.timeout_s))
        except DriverError as error:
            self.made.ended(rpc, request, None, key, is_final=self._had_no_effect(rpc, request, error))
            return Outcome(None, error, self.count > before)
        self.made.ended(rpc, request, response, key, is_final=True)
        return Outcome(response, None, self.count > before)

    def _had_no_effect(self, rpc: Rpc[Any, Any], request: Any, error: DriverError) -> bool:
        """A kubelet unpublishes after a NodePublishVolume that was refused, too: the driver may have made target_path by then."""
        left = rpc is Driver.node_publish_volume and bool(request.target_path) and self.looks_there(request.target_path)
        return (error.final or error.unsent) and not left

    async def patiently(self, rpc: Rpc[Any, Any], request: Any) -> Outcome:
        """As a sidecar: again after a passing error, unless such calls are known never to go through."""
        outcome = await self.ask(rpc, request)
        if self._never_goes_through(rpc, outcome):
            return outcome
        for pause_s in AGAIN_S:
            if outcome.code not in _PASSING or self.is_down:
                break
            await self.revive()
            await self._clock.sleep(pause_s)
            outcome = await self.ask(rpc, request)
        return outcome

    async def must(self, rpc: Rpc[Any, Any], request: Any, rule: Rule = REFUSED) -> Any:
        """The answer of a call that must succeed. rule: the one that is broken where it fails. Raises Stopped."""
        outcome = await self.patiently(rpc, request)
        if outcome.ok:
            return outcome.response
        if not outcome.breaches and not self._never_goes_through(rpc, outcome):
            self.finds(rule, rpc, request, f"the driver answers {outcome.error}")
        raise Stopped(told(f"{rpc.name} failed: {outcome.error}", request))

    def _never_goes_through(self, rpc: Rpc[Any, Any], outcome: Outcome) -> bool:
        """True for one more Aborted of a call that is known to be aborted again and again."""
        return outcome.code == Code.ABORTED and (STILL_ABORTED.number, rpc.name) in {one.key for one in self.findings}

    async def revive(self) -> None:
        """Starts a driver again that ended by itself, as a kubelet does. Raises Stopped."""
        async with self._reviving:
            if self.program is not None and self.program.has_ended:
                await self.restart()

    async def refused(self, rpc: Rpc[Any, Any], request: Any, rule: Rule, *codes: Code, why: str) -> None:
        """A call that must be refused with one of these codes. why: what is wrong with it."""
        outcome = await self.patiently(rpc, request)
        if not outcome.ok:
            self.made.never_was(rpc, request)
        if outcome.code not in codes and not outcome.breaches:
            wanted = " or ".join(go_name(code) for code in codes)
            self.finds(rule, rpc, request, f"{why}, and the driver answers {outcome.error or 'OK'} in place of {wanted}")

    async def given_up(self, rpc: Rpc[Any, Any], request: Any, after_s: float) -> None:
        """The caller goes away in the middle of the call."""
        request = self._with_secrets(rpc, request)
        key = self.made.began(rpc, request)
        invoked = self._driver.invoke(rpc, request, Call(self.options.timeout_s))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_outcome(invoked), name="conform/call-that-is-given-up")
            await self._clock.sleep(after_s)
            task.cancel()
        if not task.cancelled() and (response := task.result()) is not None:
            self.made.ended(rpc, request, response, key, is_final=True)

    def _with_secrets(self, rpc: Rpc[Any, Any], request: Any) -> Any:
        secrets = self.options.secrets.get(rpc.attribute)
        if secrets and not request.secrets:
            copy = type(request)()
            copy.CopyFrom(request)
            copy.secrets.update(secrets)
            return copy
        return request

    async def kill(self) -> None:
        """Kills the driver at once; `restart` is to follow."""
        assert self.program is not None, "a check that restarts asks for it"
        await self.program.kill()

    async def restart(self) -> None:
        """Kills the driver at once, and starts it again. Raises Stopped."""
        assert self.program is not None, "a check that restarts asks for it"
        try:
            await self.program.restart()
        except (ConfigError, OSError) as error:
            self.is_down = True
            words = str(error) if self.program.last_words() in str(error) else f"{error}{self.program.last_words()}"
            self.breach(Breach(REVIVED, "start", "", f"the driver ended, and was started again: {' | '.join(words.split(_LINE_END))}"))
            raise Stopped("the driver does not start again") from error

    # -- what checks begin with

    def name(self, what: str = "volume") -> str:
        """A new one; the same in each run with this seed."""
        self._names += 1
        return f"conform-{self.options.seed}-{what}-{self._names}"

    def needs(self, *abilities: str) -> None:
        """Raises NotApplicable."""
        if lacking := self.abilities.lacking(*abilities):
            raise NotApplicable(f"the driver does not advertise {lacking}")
        if "Node" in abilities and not self.abilities.node_id:
            raise Stopped("NodeGetInfo answers no node_id")

    def capability(self, mode: str = "SINGLE_NODE_WRITER") -> csi.VolumeCapability:
        kind: dict[str, Any] = {"block": {}} if self.options.is_block else {"mount": {}}
        return csi.VolumeCapability(**kind, access_mode={"mode": csi.VolumeCapability.AccessMode.Mode.Value(mode)})

    def a_volume(self, name: str = "", **fields: Any) -> csi.CreateVolumeRequest:
        """A request for a volume, as the provisioner makes it."""
        fields = {"capacity_range": {"required_bytes": self.options.size_bytes}, "volume_capabilities": [self.capability()], **fields}
        request = csi.CreateVolumeRequest(name=name or self.name(), parameters=dict(self.options.parameters), **fields)
        if self.abilities.topology is not None and "Plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS" in self.abilities:
            request.accessibility_requirements.requisite.append(self.abilities.topology)
            request.accessibility_requirements.preferred.append(self.abilities.topology)
        return request

    def folders(self, bytes_min: int = 0) -> tuple[str, str]:
        """A staging_target_path, which is there, and a target_path, of which the folder above is there. bytes_min: of each."""
        self._names += 1
        staging, pod = (_padded(folder / str(self._names), bytes_min) for folder in (self.options.staging, self.options.targets))
        for folder in (staging, pod):
            folder.mkdir(parents=True, exist_ok=True)
            self._folders.append(folder)
        return str(staging), str(pod / "target")

    async def shared(self) -> csi.Volume:
        """A volume for checks that change nothing of it. Raises Stopped, NotApplicable."""
        if self._shared is None:
            self._shared = await self.create(self.a_volume())
        return self._shared

    async def create(self, request: csi.CreateVolumeRequest) -> csi.Volume:
        """Raises Stopped, NotApplicable."""
        self.needs("Controller.CREATE_DELETE_VOLUME")
        volume: csi.Volume = (await self.must(Driver.create_volume, request)).volume
        if not volume.volume_id:
            raise Stopped("CreateVolume answers no volume_id")
        return volume

    def is_shared(self, identity: str) -> bool:
        return self._shared is not None and self._shared.volume_id == identity

    def seen(self, rule: Rule) -> bool:
        """True for a rule that this check has found broken."""
        return any(one.breach.rule is rule and one.check == self.check for one in self.findings)

    def looks_there(self, path: str) -> bool:
        """True for a path at which something is: the folder above is this process' own, and what is mounted is not touched."""
        return os.path.lexists(path)

    def remove_folders(self) -> list[str]:
        """Those that could not be removed."""
        left = []
        for folder in self._folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                left.append(f"folder {folder}: {error.strerror}")
        self._folders.clear()
        return left


async def _outcome(work: Coroutine[Any, Any, Any]) -> Any:
    """None for an error."""
    try:
        return await work
    except DriverError:
        return None


def _padded(path: Path, bytes_min: int) -> Path:
    return path.with_name(path.name + "n" * (bytes_min - len(os.fsencode(path))))
