"""The table of docs/testing.md with the methods of the plug-in: `python -m tests.support.plugin_methods` prints it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from mooring.testing import sync

_WORDS: Final[dict[str, type[Any]]] = {
    "cluster": sync.Cluster,
    "claim": sync.Claim,
    "pod": sync.Pod,
    "node": sync.Node,
    "snapshot": sync.Snapshot,
    "object": sync.ObjectOfTest,
}
"""The classes by the words that stand for their objects in the table."""


def table() -> str:
    lines = ["| Method | What it does |", "|---|---|"]
    lines += [f"| `{call}` | {text} |" for word, one in _WORDS.items() for call, text in _methods(word, one)]
    return "\n".join(lines)


def _methods(word: str, one: type[Any]) -> Iterator[tuple[str, str]]:
    for name, member in vars(one).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        text = " ".join((inspect.getdoc(function) or "").split())
        assert text, f"{word}.{name} has no docstring"
        yield f"{word}.{name}{'' if isinstance(member, property) else _arguments(function)}", text


def _arguments(function: Any) -> str:
    given = list(inspect.signature(function).parameters.values())[1:]
    return f"({', '.join(str(one.replace(annotation=inspect.Parameter.empty)) for one in given)})".replace("'", '"')


if __name__ == "__main__":
    print(table())
