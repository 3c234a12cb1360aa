"""Flags in the syntax of Go's `flag` package, read into a typed record.

A table is a frozen dataclass whose fields are made by `flag(name, kind, default, text)`; tables are composed by
inheritance:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class AttacherFlags(DriverFlags, ElectionFlags):
        timeout_s: float = flag("timeout", DURATION, 15.0, "deadline of each call")

    parsed = parse(AttacherFlags, ["-timeout=5s"])

A room's options are such a table, too: its flags stand on the record that the room works with, feature gates as fields
made by `gate`. The program's table inherits them. A field made by neither is worked out by whoever starts the room, or
is for tests.

Both dash forms everywhere, the value after `=` or as the next word, booleans only after `=`, the last one wins, maps
accumulate, and reading stops at the first word that is no flag, or after `--`. Names are never abbreviated.

Not argparse: it abbreviates, takes the word after a boolean, reads on after the first positional, keeps no note of
which flags were given, and holds values untyped. Bending all that took more lines than saying what Go does.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import GATES, FlagKind, Gate, GateStage, gates_help

T = TypeVar("T")
F = TypeVar("F")
R = TypeVar("R")


class UsageError(ConfigError):
    """The command line is wrong; where to read about the flags belongs to the message. Exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=2)


class Section(enum.Enum):
    """Where --help shows a flag, in this order. The value: the heading."""

    OWN = ""
    CLUSTER = "Requests to the API server"
    ELECTION = "Leader election"
    DIAGNOSTICS = "Metrics and health"
    LOG = "Log and version"
    COMPATIBLE = "Accepted for compatibility, without effect"
    UNAVAILABLE = "Known, but not available"


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """One row of a table. field: the name in the record."""

    field: str
    name: str
    kind: FlagKind[Any]
    default: Any
    text: str
    section: Section = Section.OWN


def flag(name: str, kind: FlagKind[T], default: T, text: str, section: Section = Section.OWN) -> T:
    """A field of a flag table; typed as its value, so that tables read as records."""
    made: Any = dataclasses.field(
        default_factory=lambda: default, metadata={"flag": (name, kind, default, text, section)}
    )
    result: T = made
    return result


def gate(name: str, stage: GateStage, default: bool) -> bool:
    """A field of a room's options that a feature gate says; in a parsed table it has its default."""
    made: Any = dataclasses.field(default=default, metadata={"gate": (name, Gate(stage, default))})
    result: bool = made
    return result


def flags_of(table: type[Any]) -> dict[str, Flag]:
    """The rows of a table by flag name, in alphabetical order. The text of --feature-gates lists the table's gates."""
    rows = [
        Flag(field.name, *field.metadata["flag"]) for field in dataclasses.fields(table) if "flag" in field.metadata
    ]
    rows = [dataclasses.replace(row, text=gates_help(gates_of(table))) if row.kind is GATES else row for row in rows]
    return {row.name: row for row in sorted(rows, key=lambda row: row.name)}


def gates_of(table: type[Any]) -> dict[str, Gate]:
    """The feature gates of a table by their names."""
    return dict(field.metadata["gate"] for field in dataclasses.fields(table) if "gate" in field.metadata)


def options_from(kind: type[R], flags: Any, gates: Mapping[str, bool], **derived: Any) -> R:
    """A room's options. derived: the fields that no single flag or gate gives. Other fields without flag and gate keep
    their default.
    """
    table: type[Any] = kind
    fields = dataclasses.fields(table)
    said = {field.name: getattr(flags, field.name) for field in fields if "flag" in field.metadata}
    decided = {field.name: gates[field.metadata["gate"][0]] for field in fields if "gate" in field.metadata}
    return kind(**said | decided | derived)


@dataclasses.dataclass(frozen=True, slots=True)
class Former:
    """A flag of a former release, which old manifests still have."""

    #: The flag is followed by a value; else it is a boolean.
    has_value: bool
    #: What became of the flag, for the warning.
    became: str = "it has no effect"
    #: The word that is read in its place, with {} for the value; "" for none.
    now: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed(Generic[F]):
    """given: flags that were set. removed: former flags without effect, with their values and what became of them.
    rest: other words. help_wanted: -h was read, nothing after it.

    respelled: former spellings, and what was read in their place.
    """

    flags: F
    given: frozenset[str]
    removed: tuple[tuple[str, str, str], ...]
    rest: tuple[str, ...]
    help_wanted: bool
    respelled: tuple[tuple[str, str], ...] = ()


Spellings = Mapping[str, Mapping[str, str]]
"""The former values of flags, each with the word that says the same today: {"enable-capacity": {"central":
"--enable-capacity"}}.
"""


def parse(
    table: type[F],
    words: Sequence[str],
    removed: Mapping[str, Former] | None = None,
    spellings: Spellings | None = None,
) -> Parsed[F]:
    """Reads the arguments. removed: by their names with underscores. spellings: former ones. Raises UsageError."""
    rows, removed = flags_of(table), removed or {}
    values: dict[str, Any] = {}
    ignored: list[tuple[str, str, str]] = []
    respelled: list[tuple[str, str]] = []
    left = list(reversed(words))
    help_wanted = False
    for name, text in _split(left):
        if today := _respelled(name, text, left, (spellings or {}).get(name, {})):
            respelled.append(today)
            left.append(today[1])
            continue
        if name in rows:
            row = rows[name]
            value = _read(row, _text(name, text, row.kind.bare, left))
            merge = row.kind.merge
            values[name] = merge(values[name], value) if merge is not None and name in values else value
        elif (former := removed.get(name.replace("-", "_"))) is not None:
            value = _text(name, text, None if former.has_value else "true", left)
            if former.now:
                respelled.append((f"--{name}={value}", former.now.format(value)))
                left.append(former.now.format(value))
            else:
                ignored.append((name, value, former.became))
        elif name in ("h", "help"):
            help_wanted = True
            break
        else:
            raise UsageError(f"flag provided but not defined: -{name}{_nearest(name, rows)}")
    record = table(**{rows[name].field: value for name, value in values.items()})
    return Parsed(record, frozenset(values), tuple(ignored), tuple(reversed(left)), help_wanted, tuple(respelled))


def _respelled(name: str, text: str | None, left: list[str], former: Mapping[str, str]) -> tuple[str, str] | None:
    """The given value, and today's word for it; None for a value that is no former spelling. Takes the value where that
    is the next word.
    """
    value = text if text is not None else next(reversed(left), "")
    if value not in former:
        return None
    if text is None:
        left.pop()
    return f"--{name}={value}", former[value]


def _split(left: list[str]) -> Iterator[tuple[str, str | None]]:
    """Takes flags off the end of the reversed words: (name, text behind `=` or None)."""
    while left:
        word = left[-1]
        if len(word) < 2 or not word.startswith("-"):
            return
        left.pop()
        if word == "--":
            return
        name, equals, text = word.removeprefix("-").removeprefix("-").partition("=")
        if not name or name.startswith("-"):
            raise UsageError(f"bad flag syntax: {word}")
        yield name, text if equals else None


def _text(name: str, text: str | None, bare: str | None, left: list[str]) -> str:
    if text is not None:
        return text
    if bare is not None:
        return bare
    if not left:
        raise UsageError(f"flag needs an argument: -{name}")
    return left.pop()


def _read(row: Flag, text: str) -> Any:
    try:
        return row.kind.read(text)
    except ValueError as error:
        hint = f"; allowed: {row.kind.hint}" if row.kind.hint else ""
        raise UsageError(f'invalid value "{text}" for flag -{row.name}: {error}{hint}') from None


def _nearest(name: str, rows: Mapping[str, Flag]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  needed for this message alone

    near = get_close_matches(name, rows, n=1)
    return f" (did you mean --{near[0]}?)" if near else ""
