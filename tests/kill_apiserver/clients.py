"""Clients of a server that may be gone at any moment: writers, a reader, and a watcher that goes on where it was."""

from __future__ import annotations

import http.client
import random
import threading
from collections.abc import Callable
from typing import Any, Final

from tests.kill_apiserver.facts import Broken, Fact, Facts, fact_of
from tests.support.rest import Answer, Rest

LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
WRITERS: Final = 8
_NAMES: Final = 6
_PADDING: Final = {"padding": "x" * 2000}
_GONE: Final = (OSError, http.client.HTTPException)


def listed(rest: Rest) -> tuple[dict[str, Fact], int]:
    """All leases, and the version of the list."""
    body = rest.get(LEASES).ok()
    return {fact.name: fact for fact in map(fact_of, body["items"])}, int(body["metadata"]["resourceVersion"])


class Writer:
    """Creates, changes and removes its own leases, one request at a time. Values never repeat."""

    def __init__(self, number: int, seed: int, facts: Facts) -> None:
        self._names = [f"w{number}-{each}" for each in range(_NAMES)]
        self._random, self._facts, self._count, self._number = random.Random(seed), facts, 0, number

    def step(self, rest: Rest) -> None:
        name = self._random.choice(self._names)
        self._count += 1
        value = f"{self._number}.{self._count}"
        if not self._facts.value_of(name):
            self._facts.asks(name, value)
            meta = {"name": name, "annotations": _PADDING}
            self._told(rest.post(LEASES, {"metadata": meta, "spec": {"holderIdentity": value}}), 201)
        elif self._random.random() < 0.2:
            self._facts.asks(name, "")
            answer = rest.delete(f"{LEASES}/{name}")
            answer.ok()
            self._facts.told(Fact(name, 0, "", ""))
        else:
            self._facts.asks(name, value)
            self._told(rest.patch(f"{LEASES}/{name}", {"spec": {"holderIdentity": value}}), 200)

    def _told(self, answer: Answer, status: int) -> None:
        self._facts.told(fact_of(answer.ok(status)))


class Watcher:
    """A cache of the leases, kept by a watch."""

    def __init__(self, facts: Facts) -> None:
        self.cache: dict[str, Fact] = {}
        self.version = 0
        self.resumed = 0
        self._facts = facts

    def list(self, rest: Rest) -> None:
        self.cache, self.version = listed(rest)
        self._facts.saw_version(self.version)

    def follow(self, rest: Rest, until: int | None = None) -> bool:
        """Until that version, or until the server ends. False when it has to list anew."""
        with rest.watch(LEASES, resourceVersion=str(self.version), allowWatchBookmarks="true") as watch:
            while until is None or self.version < until:
                event = watch.next()
                if event is None:
                    return True
                if event["type"] == "ERROR":
                    if event["object"]["code"] != 410:
                        raise Broken(f"a watch was told {event['object']}")
                    return False
                self._take(event)
        return True

    def _take(self, event: dict[str, Any]) -> None:
        version = int(event["object"]["metadata"]["resourceVersion"])
        if version <= self.version and event["type"] != "BOOKMARK":
            raise Broken(f"a watch at version {self.version} was told of version {version}")
        self.version = version
        self._facts.saw_version(version)
        if event["type"] == "BOOKMARK":
            return
        fact = fact_of(event["object"])
        if event["type"] == "DELETED":
            self._facts.saw(Fact(fact.name, version, fact.uid, ""))
            self.cache.pop(fact.name, None)
        else:
            self._facts.saw(fact)
            self.cache[fact.name] = fact


class Crowd:
    """Threads that go on until the server is gone. What one of them finds broken is raised by `gone`."""

    def __init__(self, rest: Rest, steps: list[Callable[[Rest], object]]) -> None:
        self._rest, self._broken = rest, list[BaseException]()
        self._threads = [threading.Thread(target=self._go_on, args=(step,)) for step in steps]
        for thread in self._threads:
            thread.start()

    def gone(self) -> None:
        """To be called when the server has been killed."""
        for thread in self._threads:
            thread.join()
        if self._broken:
            raise self._broken[0]

    def _go_on(self, step: Callable[[Rest], object]) -> None:
        try:
            while True:
                step(self._rest)
        except _GONE:
            self._rest.close()
        except BaseException as error:
            self._broken.append(error)
