"""Reads which driver a command is to run or to ask, and in which form it comes: `mooring dev --driver`,
`mooring conform`.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.csi.address import socket_path

SOCKET: Final = "{socket}"
NODE: Final = "{node}"
UNIX: Final = "unix://"
FORMS: Final = (
    "unix:///path/of.sock (or the path alone), module:Class (or ./file.py:Class), or a command with {socket} "
    "in it, as in "
    "'./my-driver --endpoint unix://{socket}'"
)

_CLASS: Final = re.compile(r"([\w.]+|\S+\.py):[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True, slots=True)
class ReferenceDriver:
    """The host-path driver, in this process. images: its volumes are file systems of their size, not folders."""

    images: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class PythonClass:
    """A Python class, run in this process: an object for each node. options: arguments of its constructor, as text."""

    words: str
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.words

    def for_node(self, node: str) -> Mapping[str, str]:
        """The options of the object for this node."""
        return {name: text.replace(NODE, node) for name, text in self.options.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class CommandLine:
    """A program, run for each node. words: with {socket}, and {node} where it wants to know its node."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)

    def for_node(self, socket: str, node: str) -> tuple[str, ...]:
        return tuple(word.replace(SOCKET, socket).replace(NODE, node) for word in self.words)

    def environment(self, socket: str, node: str) -> dict[str, str]:
        """The environment, with the variables from which many drivers read what their flags do not say."""
        return {**os.environ, "CSI_ENDPOINT": f"{UNIX}{socket}", "NODE_ID": node, "KUBE_NODE_NAME": node}


@dataclasses.dataclass(frozen=True, slots=True)
class Socket:
    """A driver that somebody else runs, on one node."""

    path: str

    def __str__(self) -> str:
        return f"{UNIX}{self.path}"


Form = ReferenceDriver | PythonClass | CommandLine | Socket


def parse_form(text: str, options: Mapping[str, str] | None = None) -> Form:
    """No text is the reference driver. options: for a class alone. Raises ConfigError."""
    form = _parsed(text)
    if isinstance(form, PythonClass):
        return dataclasses.replace(form, options=options or {})
    if options:
        raise ConfigError("option: it is for the constructor of a driver that is a class, as in --driver=module:Class")
    return form


def _parsed(text: str) -> Form:
    if not text:
        return ReferenceDriver()
    if text.startswith(UNIX) or (text.startswith("/") and Path(text).is_socket()):
        return Socket(_path(text))
    if _CLASS.fullmatch(text):
        return PythonClass(text)
    if SOCKET in text:
        return CommandLine(_words(text))
    if text.startswith("/") and len(text.split()) == 1 and not Path(text).exists():
        raise ConfigError(f"driver: there is no socket at {text!r}: start the driver first, or check the path")
    raise ConfigError(f"driver: {text!r} is none of the three forms: {FORMS}")


def _path(text: str) -> str:
    try:
        return socket_path(text)
    except ConfigError as error:
        raise ConfigError(f"driver: {error}") from None


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"driver: {text!r} can't be read as a command: {error}") from None
