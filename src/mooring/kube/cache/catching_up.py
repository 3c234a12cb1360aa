"""The wait until a cache has shown all that the API server had when the wait began.

A watch tells what happens and never says that it has come up to now: a cache that has long heard nothing may lack the
last second, or the last hour. So the server is asked for its version, and the wait is over once list or watch has come
that far.
"""

from __future__ import annotations

import asyncio

from mooring.kube.cluster import compare_versions


class CatchingUp:
    """asking: waits for which the server has to be asked for its version. waiting: the others, each with the version
    that has to come.
    """

    def __init__(self) -> None:
        self.asking: list[asyncio.Future[None]] = []
        self.waiting: list[tuple[str, asyncio.Future[None]]] = []

    def asks(self) -> asyncio.Future[None]:
        """Done once everything has been shown that the server has now."""
        wanted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asking.append(wanted)
        return wanted

    def asked(self) -> list[asyncio.Future[None]]:
        """The waits for which the server's next answer counts."""
        self.asking = [one for one in self.asking if not one.done()]
        return list(self.asking)

    def answered(self, asked: list[asyncio.Future[None]], version: str) -> None:
        """The server had this version when these waits had begun."""
        self.asking = [one for one in self.asking if one not in asked]
        self.waiting += ((version, one) for one in asked)

    def came_to(self, version: str) -> None:
        """List and watch have shown everything up to this version."""
        self.end([one for goal, one in self.waiting if compare_versions(goal, version) <= 0])

    @property
    def everybody(self) -> list[asyncio.Future[None]]:
        """All waits. A list that is asked for now has what they wait for, once it has ended."""
        return [*self.asking, *(one for _, one in self.waiting)]

    def end(self, done: list[asyncio.Future[None]]) -> None:
        """End these waits."""
        for one in done:
            if not one.done():
                one.set_result(None)
        self.asking = [one for one in self.asking if not one.done()]
        self.waiting = [(goal, one) for goal, one in self.waiting if not one.done()]
