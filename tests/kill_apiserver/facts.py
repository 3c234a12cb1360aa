"""What clients were told, and whether a server that came back may be in the state that it is in.

Each object has one writer, who asks for one thing at a time. So after a kill an object is as its writer was last told,
or as the one request made it whose answer never came; and if anybody has seen the latter, it must be that.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


class Broken(AssertionError):
    """The server broke its word."""


@dataclasses.dataclass(frozen=True)
class Fact:
    """An object as of a version. value: "" when it was removed."""

    name: str
    version: int
    uid: str
    value: str


def fact_of(lease: Json) -> Fact:
    meta = lease["metadata"]
    return Fact(meta["name"], int(meta["resourceVersion"]), meta["uid"], lease["spec"]["holderIdentity"])


class Facts:
    """Everything that anybody was told. Threads may tell it at the same time."""

    def __init__(self) -> None:
        self.highest = 0
        """The newest version that was shown."""
        self.acknowledged = 0
        self.unanswered = 0
        self._lock = threading.Lock()
        self._by_version: dict[int, Fact] = {}
        self._now: dict[str, Fact] = {}  # as its writer was last told
        self._asked: dict[str, str] = {}  # what was asked for since: the value, "" for a removal
        self._shown: dict[str, Fact] = {}  # the newest that anybody saw

    def value_of(self, name: str) -> str:
        return self._now[name].value if name in self._now else ""

    def asks(self, name: str, value: str) -> None:
        self._asked[name] = value

    def told(self, fact: Fact) -> None:
        """The answer to who asked. A removal's answer has no version."""
        with self._lock:
            del self._asked[fact.name]
            self.acknowledged += 1
            self._now[fact.name] = fact
        if fact.value:
            self.saw(fact)

    def saw(self, fact: Fact) -> None:
        """Anybody was shown this. Raises Broken for a version that was something else before."""
        with self._lock:
            self.highest = max(self.highest, fact.version)
            known = self._by_version.setdefault(fact.version, fact)
            if known != fact:
                raise Broken(f"version {fact.version} was {known}, and is {fact} now")
            if fact.name not in self._shown or self._shown[fact.name].version < fact.version:
                self._shown[fact.name] = fact

    def saw_version(self, version: int) -> None:
        with self._lock:
            self.highest = max(self.highest, version)

    def judge(self, found: Mapping[str, Fact], version: int) -> None:
        """found: what the server has after a restart, as of this version. Raises Broken. From here on, that is what is
        known.
        """
        if version < self.highest:
            raise Broken(f"the server is at version {version}, and has shown {self.highest}")
        for name in self._now.keys() | self._asked.keys() | self._shown.keys() | found.keys():
            self._judge(name, found.get(name))
        for fact in found.values():
            self.saw(fact)
        self.unanswered += len(self._asked)
        self._asked.clear()
        self._now = {**{name: dataclasses.replace(fact, value="") for name, fact in self._now.items()}, **found}
        self.saw_version(version)

    def _judge(self, name: str, found: Fact | None) -> None:
        told, shown, value = self._now.get(name), self._shown.get(name), "" if found is None else found.value
        story = (
            f"found {found}; its writer was told {told}, and asked for {self._asked.get(name)!r}; the latest shown "
            f"was {shown}"
        )
        if value == (told.value if told else ""):
            if found is not None and found != told:
                raise Broken(f"{name} is another one: {story}")
        elif value != self._asked.get(name):
            raise Broken(f"{name} is not what was acknowledged: {story}")
        if shown is None or shown == found:
            return
        if found is not None and found.version < shown.version:
            raise Broken(f"{name} is older than what was shown: {story}")
        if found is None and shown.value and self._asked.get(name) != "" and (told is None or told.value):
            raise Broken(f"{name} was shown and is not there: {story}")
