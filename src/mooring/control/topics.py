"""Keys that wait for topics, and are found again when one of them is told.

A topic is a text such as `volume/pv-1`, built by a function of the package that tells it. A topic that is told while a
key is being worked on counts for that key, too: between its decision and its wait nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)

Topic: TypeAlias = str

PARKED: Final[frozenset[Topic]] = frozenset({"parked"})
"""The topic of a problem that nothing but a change of the object itself will end. No code tells it: it makes a wait of
the problem, which would be a failure with a back-off if it waited for nothing. The key comes again when its object
changes, or after its time.
"""

TOLD_MAX: Final = 1024
"""Topics remembered while keys are being worked on; beyond it those too old for any of them are dropped, each time
their number doubles.
"""


class Topics(Generic[K]):
    """Waiting keys by topic. Memory is bounded by these keys, and by TOLD_MAX."""

    def __init__(self) -> None:
        self._topics: dict[K, frozenset[Topic]] = {}
        self._keys: dict[Topic, dict[K, None]] = {}
        self._count = 0  # of topics told so far
        # The topics told while any key is in hand, each with the count when it was told last, the key whose work told
        # it, and the count when anything else told it last.
        self._told: dict[Topic, tuple[int, K | None, int]] = {}
        self._told_max = TOLD_MAX
        self._began: dict[K, int] = {}  # key in hand → the count when its work began

    def __len__(self) -> int:
        """Waiting keys."""
        return len(self._topics)

    def begin(self, key: K) -> None:
        """A worker begins with the key: it may come to wait for a topic that is told from now on."""
        self._began[key] = self._count

    def end(self, key: K) -> None:
        """The worker is done with the key."""
        began = self._began.pop(key)
        if not self._began:
            self._told.clear()
        if began < min(self._began.values(), default=began + 1):
            self._told_max = TOLD_MAX  # it was the oldest: what it alone needed may go

    def wait(self, key: K, topics: frozenset[Topic]) -> bool:
        """From now on the key waits for these topics and for no others.

        Returns False, and notes nothing, when one of them was told since the worker began with the key, and not by its
        own work.
        """
        self.drop(key)
        began = self._began.get(key, self._count)
        for topic in topics:
            count, by, others_count = self._told.get(topic, (0, None, 0))
            if (others_count if by == key else count) > began:
                return False
        if topics:
            self._topics[key] = topics
            for topic in sorted(topics):
                self._keys.setdefault(topic, {})[key] = None
        return True

    def drop(self, key: K) -> None:
        """The key waits for nothing any more."""
        for topic in self._topics.pop(key, frozenset()):
            keys = self._keys[topic]
            del keys[key]
            if not keys:
                del self._keys[topic]

    def tell(self, topics: Iterable[Topic], by: K | None = None) -> tuple[K, ...]:
        """The keys that wait for any of these, each once, in the order in which they began to. They go on waiting.

        by: the key whose work tells them; it is not among the keys, and what it comes to wait for was not told.
        """
        found: dict[K, None] = {}
        for topic in topics:
            self._count += 1
            if self._began:
                before, before_by, others_count = self._told.get(topic, (0, None, 0))
                self._told[topic] = self._count, by, others_count if before_by == by else before
            found.update(self._keys.get(topic, {}))
        if by is not None:
            found.pop(by, None)
        if len(self._told) > self._told_max:
            self._drop_old()
        return tuple(found)

    def _drop_old(self) -> None:
        """Drops the topics told before the work on the oldest key began."""
        oldest = min(self._began.values())
        self._told = {topic: told for topic, told in self._told.items() if told[0] > oldest}
        self._told_max = max(
            TOLD_MAX, 2 * len(self._told)
        )  # what a key long in hand needs is not walked over at each topic


class Bus:
    """Carries news between the parts of a program, which need not know each other: a kind of news, and its subject."""

    def __init__(self) -> None:
        self._subscribers: dict[str, list[Callable[..., None]]] = {}

    def subscribe(self, kind: str, subscriber: Callable[..., None]) -> None:
        """Calls the subscriber with what each news of the kind is about."""
        self._subscribers.setdefault(kind, []).append(subscriber)

    def tell(self, kind: str, *about: Hashable) -> None:
        """The subscribers are called at once, in the order in which they came."""
        for subscriber in self._subscribers.get(kind, ()):
            subscriber(*about)
