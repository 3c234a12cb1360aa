"""A chain as text for a terminal of any width, as JSON and as YAML. Nothing here depends on colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mooring.base.clock import rfc3339
from mooring.base.text import visible
from mooring.inspect.printing import WIDTH, ago, wrapped
from mooring.inspect.why.chain import Chain, Link, State

NAME_WIDTH: Final = 28
_MARKS: Final = {State.DONE: "done", State.WAITING: "waiting", State.FAILED: "FAILED", State.UNSEEN: "unseen"}


def as_text(chain: Chain, now_s: float, width: int = WIDTH) -> str:
    """The links, and below them the one that blocks. width: of a line, 40 at least."""
    lines = [_headline(chain, now_s), ""]
    column = min(NAME_WIDTH, max(len(link.name) for link in chain.links))
    for link in chain.links:
        head = f"  {_MARKS[link.state]:<8} {visible(link.name):<{column}}"
        if len(link.name) <= column:
            lines += wrapped(f"{head}  ", link.text, width)
        else:
            lines += [head, *wrapped(" " * 13, link.text, width)]
    blocking = chain.blocking
    if blocking is not None:
        lines += ["", *_details(blocking, now_s, width)]
    for one in chain.unseen:
        lines += wrapped("not seen    ", f"{one.what}: {one.why}", width)
    return "\n".join(lines) + "\n"


def _headline(chain: Chain, now_s: float) -> str:
    blocking = chain.blocking
    if blocking is None:
        return f"{visible(chain.subject)}: nothing is in its way"
    since = f", for {ago(now_s - blocking.since_s)}" if blocking.since_s else ""
    return f"{visible(chain.subject)}: {_MARKS[blocking.state]} at {visible(blocking.name)}{since}"


def _details(link: Link, now_s: float, width: int) -> list[str]:
    lines = wrapped("whose move  ", link.who, width)
    if link.since_s:
        lines += wrapped("since       ", f"{rfc3339(link.since_s)} ({ago(now_s - link.since_s)})", width)
    if link.error:
        lines += wrapped("last error  ", link.error, width)
    if link.meaning:
        lines += wrapped(f"{link.code:<11} ", link.meaning, width)
    if link.retry:
        lines += wrapped("next try    ", link.retry, width)
    for number, command in enumerate(link.commands):
        lines.append(f"{'next' if number == 0 else 'or':<11} {visible(command.line)}")
        lines += wrapped("            ", ("" if command.safe else "CAREFUL: ") + command.effect, width)
    return lines


def as_list(chains: Sequence[Chain], now_s: float, width: int = WIDTH) -> str:
    """A paragraph for each chain: the object, the link and its age; why; whose move it is."""
    lines: list[str] = []
    for chain in chains:
        link = chain.blocking
        if link is not None:
            since = f"  for {ago(now_s - link.since_s)}" if link.since_s else ""
            lines.append(f"{visible(chain.subject)}  {_MARKS[link.state]} at {visible(link.name)}{since}")
            lines += wrapped("    ", link.text, width)
            lines += wrapped("    whose move: ", link.who, width)
    return "\n".join(lines) + "\n"


def as_values(chain: Chain) -> dict[str, Any]:
    """The chain for JSON and YAML; a link has no empty fields."""
    blocking = chain.blocking
    return {
        "object": chain.subject,
        "blockedAt": blocking.name if blocking is not None else None,
        "links": [_link_values(link) for link in chain.links],
        "notSeen": [{"what": one.what, "why": one.why} for one in chain.unseen],
    }


def _link_values(link: Link) -> dict[str, Any]:
    values = {
        "name": link.name,
        "state": link.state.value,
        "text": link.text,
        "mover": link.mover.name.lower() if link.state is not State.DONE else "",
        "who": link.who,
        "since": rfc3339(link.since_s) if link.since_s else "",
        "error": link.error,
        "code": link.code,
        "meaning": link.meaning,
        "nextTry": link.retry,
        "commands": [{"line": one.line, "effect": one.effect, "safe": one.safe} for one in link.commands],
    }
    return {name: value for name, value in values.items() if value not in ("", [])}
