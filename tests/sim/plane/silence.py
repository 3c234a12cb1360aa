"""Nobody waits in silence: who can't go on has an event, a status or a line of the log that names the obstacle. The law
`silent`.

| who waits                                                    | where it is told |
| --- | --- |
| a pod on a living node, with a volume that is not attached   | an event about pod or claim; an attachment's error |
| an attachment that is being deleted                          | the same of the volume's claims |
| a write of node health that is refused again and again       | a line of the log with the object's name and refusal |

It counts from the wait's begin: what was told once is not told again as long as it is so. The time does not count in
which no process of the attach/detach controller is there that has listed all that it needs to know: leaders that the
API server refuses that, one after the other, know nobody who waits. Where requests are refused at random, a line of the
log that names the object does as well: an event, or a status, may be what is refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.volume_names import attachment_name, unique_name
from mooring.control.events import REPEAT_S
from mooring.kube.errors import ApiError, Forbidden, Invalid
from tests.sim.plan import DRIVER
from tests.sim.plane.line import HEALTH, PlaneWrite
from tests.sim.plane.stands import Json, is_alive, node_of

LOOK_S: Final = 20.0
SILENT_S: Final = REPEAT_S + 2 * LOOK_S
"""An event that is refused, as one that there is no right to send, is told again with the next reminder."""
REFUSALS_MAX: Final = 4
"""In a row, of one object, before one of them must have been told."""
LINES_MAX: Final = 2000
MOVED: Final = "field is immutable"
"""What a refusal says of a uid that another object has by now: no lasting obstacle."""


class Silence:
    """laws: with what stands there. now: the virtual time."""

    def __init__(self, laws: Any, plan: Any, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        self._laws, self._plan, self._now, self._fail = laws, plan, now, fail
        self._since: dict[str, float] = {}
        self._idle_s: dict[str, float] = {}  # of these times, those in which nobody was there who could tell
        self._looked_at = 0.0
        self._newest: dict[
            str, tuple[Any, bool]
        ] = {}  # by program: its newest process, or term, and whether that has listed all
        self._events: dict[str, float] = {}  # by the uid of what they are about
        self._lines: deque[tuple[float, str]] = deque(maxlen=LINES_MAX)
        self._refusals: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)  # by their texts

    # -- what is told

    def event_about(self, uid: str) -> None:
        self._events[uid] = self._now()

    def begins(self, mortal: Any, *, has_all: bool) -> None:
        """A process, or term, of the attach/detach controller. has_all: it has listed all that it needs to know."""
        program = mortal.who.partition("#")[0]
        if not has_all or self._newest[program][0] is mortal:
            self._newest[program] = mortal, has_all

    def logged(self, line: str) -> None:
        if line.startswith(("E", "W")):
            self._lines.append((self._now(), line))

    def refused(self, write: PlaneWrite, error: ApiError) -> None:
        """A write of a program was refused, whatever it does, as far as it can tell."""
        if write.who != HEALTH or not isinstance(error, Invalid | Forbidden) or MOVED in str(error):
            return
        refusals = self._refusals[write.process, write.what.partition(" ")[2]]
        refusals[str(error)] += 1
        count = refusals[str(error)]
        if count > REFUSALS_MAX and not any(write.name in line and str(error) in line for _, line in self._lines):
            self._fail(
                "silent",
                f"{write.who}#{write.process}: {write.what} was refused {count} times, and the log does not "
                f"say so: {error}",
            )

    def went(self, write: PlaneWrite) -> None:
        self._refusals.pop((write.process, write.what.partition(" ")[2]), None)

    # -- who waits

    def look(self, is_alive_at: Callable[[str], bool]) -> None:
        """To be called every now and then. is_alive_at: whether a node's kubelet runs."""
        waiting = dict(self._waiting(is_alive_at))
        self._since = {what: self._since.get(what, self._now()) for what in waiting}
        can_tell = any(has_all and mortal.alive for mortal, has_all in self._newest.values())
        idle_s = 0.0 if can_tell else self._now() - self._looked_at
        self._looked_at = self._now()
        self._idle_s = {
            what: self._idle_s.get(what, 0.0) + min(idle_s, self._now() - since) for what, since in self._since.items()
        }
        for what, (uids, names) in waiting.items():
            began = self._since[what]
            if (
                self._now() < began + self._idle_s[what] + SILENT_S
                or self._has_error(names)
                or self.is_told(began, uids, names)
            ):
                continue
            self._fail("silent", f"{what} waits since {began:.3f}, and nobody says why")

    def is_told(self, began: float, uids: set[str], names: set[str]) -> bool:
        """By an event about one of these, or in a line of the log that has such a name, since this moment."""
        if any(self._events.get(uid, -1.0) >= began - LOOK_S for uid in uids):
            return True
        return any(at_s >= began - LOOK_S and any(name in line for name in names) for at_s, line in self._lines)

    def _waiting(self, is_alive_at: Callable[[str], bool]) -> Iterator[tuple[str, tuple[set[str], set[str]]]]:
        """Each with the uids of what it may be told about, and the names that tell of it."""
        for pod in self._laws.pods.values():
            node = node_of(pod)
            if (
                node
                and is_alive(pod)
                and pod["status"]["phase"] == "Pending"
                and is_alive_at(node)
                and not self._has_all(pod, node)
            ):
                names = {
                    pod["metadata"]["name"],
                    *(attachment_name(DRIVER, handle, node) for handle in self._handles(pod)),
                }
                yield (
                    f"pod {pod['metadata']['name']} {pod['metadata']['uid']}",
                    ({pod["metadata"]["uid"], *self._claims(pod)}, names),
                )
        wanted = {attachment_name(DRIVER, *pair) for pair in self._laws.wanted()}
        for one in self._laws.attachments.values():
            if one.deleting and one.name not in wanted:
                claims = {
                    claim["metadata"]["uid"]
                    for claim in self._laws.claims.values()
                    if claim["spec"].get("volumeName") == one.volume
                }
                yield f"attachment {one.name} {one.uid}", (claims, {one.name})

    def _has_error(self, names: set[str]) -> bool:
        found = (self._laws.attachments.get(name) for name in names)
        return any(one is not None and one.error for one in found)

    def _has_all(self, pod: Json, node: str) -> bool:
        """True when every volume is attached and reported: what else keeps the pod is its kubelet's to tell."""
        stand, handles = self._laws.nodes.get(node), list(self._handles(pod))
        if stand is None or not stand.is_there or len(handles) < len(pod["spec"].get("volumes") or ()):
            return False
        return all(unique_name(DRIVER, handle) in stand.listed for handle in handles)

    def _handles(self, pod: Json) -> Iterator[str]:
        for key in _keys(pod):
            if handle := self._laws.handle_of(key):
                yield handle

    def _claims(self, pod: Json) -> Iterator[str]:
        for key in _keys(pod):
            if (claim := self._laws.claims.get(key)) is not None:
                yield claim["metadata"]["uid"]


def _keys(pod: Json) -> Iterator[tuple[str, str]]:
    for volume in pod["spec"].get("volumes") or ():
        yield pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"]
