"""A kubeconfig in YAML. What is wrong in it is told in the parser's words, without the text that they quote."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from mooring.base.errors import ConfigError
from mooring.base.yaml_text import from_yaml

_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_GRAMMAR: Final = re.compile(r"'(<[a-z ]+>|[^\w\s]|\\[a-z])'")
"""Quoted words that are YAML's own: '<stream end>', ',', '\\t'."""


def parsed_yaml(content: bytes, where: str) -> Any:
    """The value, None for an empty file. Raises ConfigError."""
    try:
        return from_yaml(content)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{where}: is not valid YAML{_in_words(error)}") from None


def _in_words(error: Exception) -> str:
    """Where and why the file is wrong, in the parser's words. The text that it quotes from the file is left out, and so
    is all of str(), since both may be secrets.
    """
    place, words = "", str(error)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        words = ", ".join(filter(None, (error.context, error.problem))) or "it can not be read"
    elif isinstance(error, yaml.reader.ReaderError):
        place, words = f" at character {error.position + 1}", error.reason
    return f"{place}: {_QUOTED.sub(lambda quoted: quoted[0] if _GRAMMAR.fullmatch(quoted[0]) else '…', words)}"
