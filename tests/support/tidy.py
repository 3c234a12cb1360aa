"""What a linter can't know about our house: time, randomness and tasks have one door each, and so does each third
party.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Final

_CLOCKS: Final = {
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "sleep",
}

FORBIDDEN: Final = {
    **{f"time.{name}": "take base.clock.Clock" for name in _CLOCKS},
    **{
        f"datetime.{kind}.{name}": "take base.clock.Clock"
        for kind in ("datetime", "date")
        for name in ("now", "utcnow", "today")
    },
    "asyncio.sleep": "take base.clock.Clock",
    "asyncio.create_task": "use a task group, so that the task has an owner",
    "asyncio.ensure_future": "use a task group, so that the task has an owner",
    "random": "take base.randomness.Random",
    "uuid.uuid1": "take base.randomness.Random",
    "uuid.uuid4": "take base.randomness.Random",
}
"""Full names, or a module with all that is in it, and what to do instead. For every file outside of base."""


@functools.cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree, which many rules go through."""
    return tuple(ast.walk(tree))


def findings(tree: ast.AST, file: str = "<text>") -> list[str]:
    """Every use of a forbidden name and every task without a name or an owner, as `file:line: what, what to do`."""
    names = _imported_names(tree)
    found = []
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            found.extend(f"{file}:{node.lineno}: {full}, {instead}" for full, instead in _forbidden(node, names))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.extend(
                f"{file}:{node.lineno}: {name}, {FORBIDDEN[name]}" for name in _modules(node) if name in FORBIDDEN
            )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "create_task":
            found.extend(f"{file}:{node.lineno}: create_task, {instead}" for instead in _task_faults(node, node.func))
    return sorted(set(found))


@functools.cache
def imported_modules(tree: ast.AST) -> dict[str, int]:
    """Every module that the file imports, from wherever in it, with the line of the first time. `from a import b`
    gives a and a.b.

    What stands below `if TYPE_CHECKING` is imported by nobody.
    """
    modules: dict[str, int] = {}
    for_types = [
        node for node in nodes_of(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = {inner for node in for_types for inner in ast.walk(node)}
    for node in nodes_of(tree):
        if node not in skipped and isinstance(node, ast.Import | ast.ImportFrom):
            for name in _modules(node):
                modules.setdefault(name, node.lineno)
    return modules


def _modules(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported_names(tree: ast.AST) -> dict[str, str]:
    """What each imported name of a file stands for: {"dt": "datetime", "sleep": "asyncio.sleep"}."""
    names = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def _forbidden(node: ast.Attribute | ast.Name, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    parts: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name) and inner.id in names:
        full = ".".join([names[inner.id], *reversed(parts)])
        if full in FORBIDDEN:
            yield full, FORBIDDEN[full]


def _task_faults(call: ast.Call, function: ast.Attribute) -> Iterator[str]:
    if not any(keyword.arg == "name" for keyword in call.keywords):
        yield "give the task a name"
    owner = function.value.func if isinstance(function.value, ast.Call) else function.value
    text = ast.unparse(owner)
    if text.endswith("loop") or text == "asyncio":
        yield "use a task group, so that the task has an owner"
