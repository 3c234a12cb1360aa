"""One round: the server starts on what the last one left, is judged, is put under load, and is killed."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kill_apiserver.clients import LEASES, WRITERS, Crowd, Watcher, Writer, listed
from tests.kill_apiserver.facts import Broken, Fact, Facts, fact_of
from tests.support.programs import Program
from tests.support.rest import Rest

_START_S_MAX = 30.0
_KILLED_AT_START = 0.15
"""So many rounds end before the server is ready."""


class Rounds:
    """folder: for the state, which goes from round to round."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.facts = Facts()
        self.kills = 0
        self.slowest_start_s = 0.0
        self._folder, self._random = folder, random.Random(seed)
        self._writers = [Writer(number, self._random.randrange(1 << 32), self.facts) for number in range(WRITERS)]
        self._watcher = Watcher(self.facts)
        self.lists = 0

    @property
    def resumed(self) -> int:
        return self._watcher.resumed

    def summary(self) -> str:
        facts = self.facts
        return (
            f"{self.kills} kills, {facts.acknowledged} writes acknowledged, {facts.unanswered} unanswered, "
            f"{self.lists} lists, "
            f"{self.resumed} watches resumed, version {facts.highest}, slowest start {self.slowest_start_s:.2f} s"
        )

    def run(self) -> None:
        """Raises Broken."""
        while self._random.random() < _KILLED_AT_START:
            with self._server() as program:
                time.sleep(self._random.uniform(0.0, 1.0))
                self._kill(program)
        with self._server() as program:
            rest = self._ready(program)
            self._judge(rest)
            rest.close()
            crowd = Crowd(rest, [*(writer.step for writer in self._writers), self._read, self._follow])
            time.sleep(self._random.choice((0.02, 0.1, 0.5)) * self._random.random())
            self._kill(program)
            crowd.gone()

    @contextlib.contextmanager
    def _server(self) -> Iterator[Program]:
        (self._folder / "kubeconfig").unlink(missing_ok=True)
        state, kubeconfig = self._folder / "state", self._folder / "kubeconfig"
        command = [
            sys.executable,
            "-m",
            "mooring.cli.mooring",
            "apiserver",
            f"--state={state}",
            f"--kubeconfig={kubeconfig}",
        ]
        program = Program(command, self._folder / "log")
        try:
            yield program
        finally:
            program.kill()

    def _kill(self, program: Program) -> None:
        if program.exit_code is not None:
            raise Broken(f"the server ended by itself: {program.output()[-2000:]}")
        program.send(signal.SIGKILL)
        program.wait_exit()
        self.kills += 1

    def _ready(self, program: Program) -> Rest:
        began = time.monotonic()
        while not (self._folder / "kubeconfig").exists():
            if program.exit_code is not None or time.monotonic() > began + _START_S_MAX:
                raise Broken(f"the server did not start: {program.output()[-2000:]}")
            time.sleep(0.01)
        self.slowest_start_s = max(self.slowest_start_s, time.monotonic() - began)
        url = json.loads((self._folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        identity = self._folder / "state" / "tls"
        return Rest(url, identity / "ca.crt", (identity / "token").read_text())

    def _judge(self, rest: Rest) -> None:
        found, version = listed(rest)
        self.facts.judge(found, version)
        marker = fact_of(self._mark(rest, found))
        if self._watcher.version and self._watcher.follow(rest, marker.version):
            self._watcher.resumed += 1
            now, _ = listed(rest)
            if self._watcher.cache != now:
                raise Broken(f"a watch that went on after the restart has {self._watcher.cache}, and there is {now}")
        else:
            self._watcher.list(rest)

    def _mark(self, rest: Rest, found: dict[str, Fact]) -> dict[str, Any]:
        """A write whose version a watch can be read up to."""
        value = f"round {self.kills}"
        self.facts.asks("marker", value)
        if "marker" in found:
            answer = rest.patch(f"{LEASES}/marker", {"spec": {"holderIdentity": value}}).ok()
        else:
            answer = rest.post(LEASES, {"metadata": {"name": "marker"}, "spec": {"holderIdentity": value}}).ok(201)
        self.facts.told(fact_of(answer))
        return answer

    def _read(self, rest: Rest) -> None:
        found, version = listed(rest)
        self.lists += 1
        self.facts.saw_version(version)
        for fact in found.values():
            self.facts.saw(fact)

    def _follow(self, rest: Rest) -> None:
        if not self._watcher.follow(rest):
            self._watcher.list(rest)
