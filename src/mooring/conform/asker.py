"""Asks a driver: each call is judged by the book, and what it may have made is remembered until it is deleted."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.conform.abilities import Abilities
from mooring.conform.book.errors import DIED, REFUSED, SILENT, STILL_ABORTED
from mooring.conform.book.node import ELSEWHERE, NOT_THERE
from mooring.conform.book.rule import Rule
from mooring.conform.call.patience import SIDECARS
from mooring.conform.check import NotApplicable, Stopped
from mooring.conform.disk import Disk
from mooring.conform.finder import INTRODUCTION, Finder, told
from mooring.conform.made import Made
from mooring.conform.options import Options
from mooring.conform.reviving import Program, Reviving
from mooring.csi.client import Client
from mooring.csi.driver import Call, Driver, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code, go_name
from mooring.wire.grpc.errors import LOST_TEXT

AGAIN_S: Final = (0.05, 0.05, 0.1, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.0)
"""The pauses before a call is made again that was answered with Aborted or Unavailable."""
_PASSING: Final = frozenset({Code.ABORTED, Code.UNAVAILABLE})
_NO_MOUNT: Final = (NOT_THERE, ELSEWHERE)
"""Calls about a volume that is not at its path may fail."""


class Outcome(msgspec.Struct, frozen=True):
    """The end of a call. breaches: whether the book has found something in it."""

    response: Any
    error: DriverError | None
    breaches: bool

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def is_unsent(self) -> bool:
        """Nobody was there to ask."""
        return self.error is not None and self.error.unsent

    @property
    def code(self) -> int:
        return Code.OK if self.error is None else self.error.code


class Asker(Finder):
    """One run's. driver: a client that the book watches, and that tells `breach`. clock: of its pauses.

    program: None for a driver that somebody else runs.
    """

    def __init__(self, driver: Client, options: Options, clock: Clock, program: Program | None) -> None:
        super().__init__(options)
        self._clock, self.program = clock, program
        self._reviving = Reviving(driver, program, clock, self.breach)
        self.abilities = Abilities(frozenset())
        self.randomness = Random(options.seed)
        self.made = Made()
        self.on_progress: Callable[[str], None] = lambda text: None
        self.sees = False
        """The driver's mounts are those of this process."""
        self.disk: Disk | None = None
        """Under the driver's data, where this run has made one."""
        self._is_away = False
        self._names, self._run = 0, Random().suffix()
        self._shared: csi.Volume | None = None
        self._folders: list[Path] = []

    def tells(self, on_progress: Callable[[str], None]) -> None:
        """on_progress: is told how far a long check is, and that the driver was started again."""
        self.on_progress = self._reviving.say = on_progress

    @property
    def is_down(self) -> bool:
        """The driver ended, and does not start again."""
        return self._reviving.is_down

    # -- calls

    async def ask(self, rpc: Rpc[Any, Any], request: Any) -> Outcome:
        """One call, to a driver that runs. Raises Stopped where it does not start again."""
        await self._reviving.revive()
        outcome = await self._asked(rpc, request)
        if (error := outcome.error) is not None:
            runs_again = await self._reviving.after(error.message, unsent=error.unsent)
            if error.message == LOST_TEXT:
                self.add_output(DIED, rpc, request, self._reviving.output)
            if runs_again and error.unsent:  # it went to nobody
                outcome = await self._asked(rpc, request)
        return outcome

    async def _asked(self, rpc: Rpc[Any, Any], request: Any) -> Outcome:
        request, before, began_s = self._with_secrets(rpc, request), self.count, self._clock.now()
        key = self.made.began(rpc, request)
        self._reviving.begins(rpc, request)
        try:
            response = await self._reviving.driver.invoke(rpc, request, Call(self.options.timeout_s))
        except DriverError as error:
            self.made.ended(rpc, request, None, key, is_final=self._had_no_effect(rpc, request, error))
            return Outcome(None, error, self.count > before)
        self.made.ended(rpc, request, response, key, is_final=True)
        self._failing.pop(rpc.name, None)
        sidecar, waits_s = SIDECARS.get(rpc, ("", math.inf))
        if (took_s := self._clock.now() - began_s) > waits_s:
            enough_s = math.ceil(2 * took_s / 10) * 10
            found = f"it took {took_s:.1f} s, and {sidecar} waits {waits_s:g} s: start it with --timeout={enough_s}s"
            self.finds(SILENT, rpc, request, found)
        return Outcome(response, None, self.count > before)

    def _had_no_effect(self, rpc: Rpc[Any, Any], request: Any, error: DriverError) -> bool:
        """A kubelet unpublishes after a NodePublishVolume that was refused, too: the driver may have made target_path
        by then.
        """
        left = rpc is Driver.node_publish_volume and bool(request.target_path) and self.looks_there(request.target_path)
        return (error.final or error.unsent) and not left

    async def patiently(self, rpc: Rpc[Any, Any], request: Any, *wanted: Code) -> Outcome:
        """As a sidecar: again after a passing error, unless it is wanted, or such calls are known never to go
        through.
        """
        outcome = await self.ask(rpc, request)
        for pause_s in AGAIN_S:
            if (
                outcome.code not in _PASSING
                or outcome.code in wanted
                or self.is_down
                or self._never_goes_through(rpc, outcome)
            ):
                break
            if self._is_away and outcome.is_unsent:
                break
            await self._clock.sleep(pause_s)
            outcome = await self.ask(rpc, request)
        self._is_away = outcome.is_unsent
        return outcome

    async def must(self, rpc: Rpc[Any, Any], request: Any, rule: Rule = REFUSED) -> Any:
        """The answer of a call that must succeed. rule: the one that is broken where it fails. Raises Stopped."""
        outcome = await self.patiently(rpc, request)
        if outcome.error is None:
            return outcome.response
        if (
            not outcome.breaches
            and not outcome.is_unsent
            and not self._never_goes_through(rpc, outcome)
            and not self.has_seen(*_NO_MOUNT)
        ):
            is_known = self.fails_in_any_case(rpc, outcome)
            hint = await self._hint(rpc)
            self.finds(REFUSED if is_known else rule, rpc, request, f"the driver answers {outcome.error}{hint}")
        if self.check == INTRODUCTION and outcome.error.final:
            self._failing[rpc.name] = outcome.code
        raise Stopped(told(f"{rpc.name} failed: {outcome.error}", request))

    def fails_in_any_case(self, rpc: Rpc[Any, Any], outcome: Outcome) -> bool:
        """True for an error that the call has had for a good request, too, and for no answer at all."""
        return outcome.error is not None and (outcome.is_unsent or self._failing.get(rpc.name) == outcome.code)

    async def _hint(self, rpc: Rpc[Any, Any]) -> str:
        """For a driver that stages volumes and does not say so."""
        if rpc is not Driver.node_publish_volume or "Node.STAGE_UNSTAGE_VOLUME" in self.abilities:
            return ""
        with self.silently():
            staging = await self.ask(Driver.node_stage_volume, csi.NodeStageVolumeRequest())
        serves = not staging.is_unsent and staging.code != Code.UNIMPLEMENTED
        return (
            "; it serves NodeStageVolume: advertise STAGE_UNSTAGE_VOLUME where NodePublishVolume needs a staged volume"
            if serves
            else ""
        )

    def _never_goes_through(self, rpc: Rpc[Any, Any], outcome: Outcome) -> bool:
        """True for one more Aborted of a call that is known to be aborted again and again, and for a call that ends the
        driver.
        """
        if outcome.error is not None and outcome.error.message == LOST_TEXT:
            return True
        return outcome.code == Code.ABORTED and (STILL_ABORTED.number, rpc.name) in {one.key for one in self.findings}

    async def revive(self) -> None:
        """Starts a driver again that ended by itself. Raises Stopped."""
        await self._reviving.revive()

    async def pause(self, seconds: float) -> None:
        """Seconds in which this process runs."""
        await self._clock.sleep(seconds)

    async def refused(self, rpc: Rpc[Any, Any], request: Any, rule: Rule, *codes: Code, why: str) -> None:
        """A call that must be refused with one of these codes. why: what is wrong with it."""
        outcome = await self.patiently(rpc, request, *codes)
        if not outcome.ok:
            self.made.never_was(rpc, request)
        if outcome.code not in codes and self.fails_in_any_case(rpc, outcome):
            raise Stopped(told(f"{rpc.name} fails in any case: {outcome.error}", request))
        if outcome.code not in codes and not outcome.breaches:
            wanted = " or ".join(go_name(code) for code in codes)
            self.finds(
                rule, rpc, request, f"{why}, and the driver answers {outcome.error or 'OK'} in place of {wanted}"
            )

    async def given_up(self, rpc: Rpc[Any, Any], request: Any, after_s: float) -> None:
        """The caller goes away in the middle of the call."""
        request = self._with_secrets(rpc, request)
        key = self.made.began(rpc, request)
        self._reviving.begins(rpc, request)
        invoked = self._reviving.driver.invoke(rpc, request, Call(self.options.timeout_s))
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
        await self._reviving.program.kill()

    async def restart(self) -> None:
        """Kills the driver at once, and starts it again. Raises Stopped."""
        await self._reviving.restart()

    # -- what checks begin with

    def name(self, what: str = "volume") -> str:
        """A new one: no other run has it, not even one that was killed and has left what it made."""
        self._names += 1
        return f"conform-{self._run}-{what}-{self._names}"

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
        fields = {
            "capacity_range": {"required_bytes": self.options.size_bytes},
            "volume_capabilities": [self.capability()],
            **fields,
        }
        request = csi.CreateVolumeRequest(name=name or self.name(), parameters=dict(self.options.parameters), **fields)
        if self.abilities.topology is not None and "Plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS" in self.abilities:
            request.accessibility_requirements.requisite.append(self.abilities.topology)
            request.accessibility_requirements.preferred.append(self.abilities.topology)
        return request

    def folders(self, bytes_min: int = 0) -> tuple[str, str]:
        """Make a staging_target_path, and the folder above a target_path. bytes_min: of each path. `remove_folders`
        removes these folders, and those above them that are made here.
        """
        self._names += 1
        staging, pod = (
            _padded(folder / str(self._names), bytes_min) for folder in (self.options.staging, self.options.targets)
        )
        for folder in (staging, pod):
            made = [one for one in (folder, *folder.parents) if not one.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            self._folders += reversed(made)
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

    def looks_there(self, path: str) -> bool:
        """True for a path at which something is: the folder above is this process' own, and what is mounted is not
        touched.
        """
        return os.path.lexists(path)

    def remove_folders(self) -> list[str]:
        """Remove the folders of all paths; return those that could not be removed, but for the folders above them."""
        left: dict[Path, str] = {}
        for folder in reversed(self._folders):
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                if not any(one.is_relative_to(folder) for one in left):
                    left[folder] = f"folder {folder}: {error.strerror}"
        self._folders.clear()
        return list(left.values())


async def _outcome(work: Coroutine[Any, Any, Any]) -> Any:
    """None for an error."""
    try:
        return await work
    except DriverError:
        return None


def _padded(path: Path, bytes_min: int) -> Path:
    return path.with_name(path.name + "n" * (bytes_min - len(os.fsencode(path))))
