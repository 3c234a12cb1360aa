"""The figures that the repository keeps, and the judgement of those that were counted.

Each operation has a list of figures, the newest last, each with the reason why it came in the place of the one before.
A commit that makes an operation dearer adds one, and so says why.
"""

from __future__ import annotations

import hashlib
import platform
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).with_name("kept.json")
CHANGE_MAX: Final = 0.03
"""Of the kept figure. Runs on a busy machine differ by less than half of it."""


class Figure(msgspec.Struct, frozen=True):
    #: Instructions of one operation.
    instructions: int
    #: A sentence: why this figure came in the place of the one before.
    why: str


Figures = Mapping[str, Sequence[Figure]]
"""By operation, the newest last."""


def build() -> str:
    """Return what the figures hang on: this build of Python, the libraries below it, and the processor, by which they
    choose their code.
    """
    version = " ".join(sys.version.split())
    return f"{version}, {ssl.OPENSSL_VERSION}, {' '.join(platform.libc_ver())}, {_processor()}"


def _processor() -> str:
    """Return the architecture, and family, model and a digest of the features where Linux tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        lines = []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    features = hashlib.sha256(" ".join(sorted(told.get("flags", "").split())).encode()).hexdigest()[:8]
    return f"{platform.machine()} {told.get('cpu family', '?')}/{told.get('model', '?')} {features}"


def read(file: Path = FILE) -> dict[str, dict[str, list[Figure]]]:
    """Return the kept figures by build."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, list[Figure]]])


def keep(counted: Mapping[str, int], why: str, file: Path = FILE) -> None:
    """Write those of the counted figures that differ from the kept ones of this build."""
    kept = read(file)
    mine = kept.setdefault(build(), {})
    for operation, instructions in counted.items():
        figures = mine.setdefault(operation, [])
        if not figures or figures[-1].instructions != instructions:
            figures.append(Figure(instructions, why))
    file.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")


def problems(kept: Figures, counted: Mapping[str, int]) -> list[str]:
    """Return what somebody has to mend or to explain: rises, and kept figures without a reason."""
    found = [
        f"{operation}: the kept figure of {figure.instructions:,} has no reason"
        for operation, figures in kept.items()
        for figure in figures
        if not figure.why.strip()
    ]
    for operation, instructions in counted.items():
        change = _change(kept, operation, instructions)
        if change is None:
            found.append(f"{operation}: no figure is kept")
        elif change > CHANGE_MAX:
            found.append(
                f"{operation} takes {change:.1%} more instructions than the kept figure. Find what made it dearer and "
                f"take it out; or say why it must be: make meter ARGS='--keep \"the reason\"'"
            )
    return found


def hints(kept: Figures, counted: Mapping[str, int]) -> list[str]:
    """Return what else people should know: a lower figure that is not kept would let a rise back to it pass."""
    changes = {operation: _change(kept, operation, instructions) for operation, instructions in counted.items()}
    return [
        f"{operation} takes {-change:.1%} fewer instructions than the kept figure. Keep the lower one, so that a rise "
        f"back is seen: make meter ARGS='--keep \"the reason\"'"
        for operation, change in changes.items()
        if change is not None and change < -CHANGE_MAX
    ]


def table(kept: Figures, counted: Mapping[str, int]) -> list[str]:
    """Return the lines to print: each operation, its kept figure and the counted one."""
    lines = [f"{'instructions of one':20}{'kept':>14}{'counted':>14}"]
    for operation, instructions in counted.items():
        change = _change(kept, operation, instructions)
        before = "none" if change is None else f"{kept[operation][-1].instructions:,}"
        lines.append(f"{operation:20}{before:>14}{instructions:>14,}" + ("" if change is None else f"{change:>+9.1%}"))
    return lines


def _change(kept: Figures, operation: str, instructions: int) -> float | None:
    """As a share of the kept figure; None where there is none."""
    figures = kept.get(operation)
    return instructions / figures[-1].instructions - 1 if figures else None
