"""YAML from strangers: parsed as the JSON it stands for, within bounds.

The C parser builds nested values by recursion on the C stack, which hostile depth overflows: a crash, not an error. So the events
are looked through first, which needs no recursion: depth and count are bounded before anything is built, and aliases, with which
a small text grows into a huge value, are not taken at all.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import yaml

BYTES_MAX: Final = 1024 * 1024
_DEPTH_MAX: Final = 100
_EVENTS_MAX: Final = 200_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_BAD_TAG: Final = (KeyError, IndexError, AttributeError)
"""What the loader itself runs into at `!!bool x`, `!!int ""` and `!!timestamp x`."""


class _JsonLikeLoader(_Loader):  # type: ignore[misc]
    """YAML whose scalars are those of JSON: what looks like a date stays text."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(body: bytes) -> Any:
    """The JSON value of a YAML document. Raises ValueError."""
    if len(body) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes of YAML; send JSON")
    try:
        _check_bounds(body)
        value = yaml.load(body, Loader=_JsonLikeLoader)
        return msgspec.json.decode(msgspec.json.encode(value))
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from error
    except TypeError as error:
        raise ValueError(f"a key that JSON does not know: {error}") from error
    except _BAD_TAG as error:
        raise ValueError(f"a value that is not what its tag says: {error}") from error


def dump_yaml(value: Any) -> bytes:
    """A JSON value as YAML, keys sorted."""
    return yaml.safe_dump(value, allow_unicode=True, sort_keys=True).encode()


def _check_bounds(body: bytes) -> None:
    """Raises ValueError for a document that would cost more than it is worth."""
    depth = 0
    for number, event in enumerate(yaml.parse(body, Loader=_JsonLikeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise ValueError("YAML aliases are not taken; write the value out")
        if depth > _DEPTH_MAX or number > _EVENTS_MAX:
            raise ValueError("YAML with too many values, or too deep ones")
