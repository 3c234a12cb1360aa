"""What `--driver` says: which driver `mooring dev` runs, and in which way."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import Final

from mooring.base.errors import ConfigError
from mooring.csi.address import socket_path

SOCKET: Final = "{socket}"
NODE: Final = "{node}"
UNIX: Final = "unix://"
FORMS: Final = "unix:///path/of.sock, module:Class, or a command with {socket} in it, as in './my-driver --endpoint unix://{socket}'"

_CLASS: Final = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The host-path driver, in this process."""


@dataclasses.dataclass(frozen=True, slots=True)
class PythonClass:
    """A Python class, run in this process: an object for each node."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class CommandLine:
    """A program, run for each node. words: with {socket}, and {node} where it wants to know its node."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)

    def for_node(self, socket: str, node: str) -> tuple[str, ...]:
        return tuple(word.replace(SOCKET, socket).replace(NODE, node) for word in self.words)


@dataclasses.dataclass(frozen=True, slots=True)
class Socket:
    """A driver that somebody else runs, on one node."""

    path: str

    def __str__(self) -> str:
        return f"{UNIX}{self.path}"


Form = Reference | PythonClass | CommandLine | Socket


def parse_form(text: str) -> Form:
    """ "" is the reference driver. Raises ConfigError."""
    if not text:
        return Reference()
    if text.startswith(UNIX):
        return Socket(_path(text))
    if found := _CLASS.fullmatch(text):
        return PythonClass(found["module"], found["name"])
    if SOCKET in text:
        return CommandLine(_words(text))
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
