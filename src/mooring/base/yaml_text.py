"""YAML from outside, in which nothing nests deeper than a limit, aliases written out. JSON is YAML, and may be indented
by tabs here.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from mooring.base.json_text import DEPTH_MAX, TooDeep, from_json

_BAD_TAG: Final = (KeyError, IndexError, AttributeError, OverflowError)
"""Errors that the loader itself raises for `!!bool x`, `!!int ""`, `!!timestamp x` and similar tags."""


class Loader(yaml.SafeLoader):
    """Raises yaml.YAMLError, and ValueError, of which TooDeep is one."""

    def __init__(self, text: str | bytes) -> None:
        super().__init__(_without_tabs(text))
        #: How many maps and lists are open.
        self._depth = 0
        #: The deepest level since the innermost open node began.
        self._deepest = 0
        #: The levels below each anchor, once its node is complete.
        self._levels: dict[yaml.Node | None, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node. An alias is as deep as what it stands for, and has no end if that is around it."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        try:
            if isinstance(event, yaml.AliasEvent):
                node = super().compose_node(parent, index)
                self._reach(self._depth + self._levels.get(node, DEPTH_MAX + 1))
                return node
            is_open, above = isinstance(event, yaml.CollectionStartEvent), self._deepest
            self._depth += is_open
            self._deepest = 0
            self._reach(self._depth)
            node = super().compose_node(parent, index)
        except RecursionError:  # the caller is far down the stack himself
            raise TooDeep from None
        self._depth -= is_open
        if event.anchor:
            self._levels[node] = self._deepest - self._depth
        self._deepest = max(above, self._deepest)
        return node

    def _reach(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise TooDeep
        self._deepest = max(self._deepest, depth)

    def construct_document(self, node: yaml.Node) -> Any:
        try:
            return super().construct_document(node)
        except _BAD_TAG:
            raise ValueError("a value is not what its tag says") from None
        except RecursionError:  # keys that are lists of lists are constructed by recursion
            raise TooDeep from None


def from_yaml(text: str | bytes) -> Any:
    """The value of a document. Raises yaml.YAMLError, and ValueError, of which TooDeep is one."""
    loader = Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def line_of(error: Exception) -> str:
    """Where a text is no YAML, as in " at line 3", for a text with secrets: the parser's own words repeat it."""
    mark = getattr(error, "problem_mark", None)
    return f" at line {mark.line + 1}" if mark is not None else ""


def _without_tabs(text: str | bytes) -> str | bytes:
    """The text with blanks for the tabs that indent JSON, as Go's MarshalIndent writes it: our parser refuses them."""
    first, tab = ("{", "\t") if isinstance(text, str) else (b"{", b"\t")
    if tab not in text or not text.lstrip().startswith(first):  # type: ignore[operator, arg-type]
        return text
    try:
        from_json(text)  # within JSON's texts no tab stands as itself
    except TooDeep:
        raise
    except ValueError:
        return text
    return text.replace("\t", " ") if isinstance(text, str) else text.replace(b"\t", b" ")
