"""The answer: links in the order in which a volume's life has them, and the one that blocks."""

from __future__ import annotations

import enum

import msgspec

from mooring.inspect.scene import Unseen


class State(enum.StrEnum):
    DONE = "done"
    WAITING = "waiting"
    FAILED = "failed"
    UNSEEN = "unseen"


class Mover(enum.Enum):
    """Whose move it is. Its value is the exit code of `mooring why`."""

    NOBODY = 0
    """Nothing is left to do."""
    CLUSTER = 3
    """A program of the cluster is at work, and goes on by itself."""
    USER = 4
    """The owner of the pod, claim or snapshot has to change something."""
    OPERATOR = 5
    """Who runs the cluster has to change something."""
    DRIVER = 6
    """The CSI driver, or the storage behind it, refuses or does not answer."""
    UNKNOWN = 7
    """The rights of whoever asks do not suffice to say."""


class Command(msgspec.Struct, frozen=True):
    """line: to type. effect: what it does, and whether that is safe. safe: nobody loses data or a running pod by it."""

    line: str
    effect: str
    safe: bool = True


class Link(msgspec.Struct, frozen=True):
    """One step of the way.

    name: of the step. text: where it stands, a sentence. mover, who: whose move it is, and by name. since_s: seconds
    since 1970, 0 for unknown. error: the last one, as its author wrote it. code: of gRPC, under Go's name, "" for none;
    meaning: what that code says. retry: when it is tried again, "" for never by itself or nothing to try. commands:
    what to type next, the best one first.
    """

    name: str
    state: State
    text: str
    mover: Mover = Mover.NOBODY
    who: str = ""
    since_s: float = 0.0
    error: str = ""
    code: str = ""
    meaning: str = ""
    retry: str = ""
    commands: tuple[Command, ...] = ()


def unseen_link(step: str, text: str) -> Link:
    """The link for what the rights of whoever asks do not show."""
    return Link(step, State.UNSEEN, text, Mover.UNKNOWN, "somebody with more rights")


_RANK = {State.FAILED: 0, State.WAITING: 1, State.UNSEEN: 1}


class Chain(msgspec.Struct, frozen=True):
    """subject: `pod shop/web-0`. unseen: what the rights of whoever asks do not show."""

    subject: str
    links: tuple[Link, ...]
    unseen: tuple[Unseen, ...] = ()

    @property
    def blocking(self) -> Link | None:
        """The link that keeps the rest: the first that failed, else the first that is not known to be done. None where
        all are done.
        """
        open_links = [link for link in self.links if link.state in _RANK]
        return min(open_links, key=lambda link: _RANK[link.state], default=None)

    @property
    def exit_code(self) -> int:
        blocking = self.blocking
        return blocking.mover.value if blocking is not None else 0
