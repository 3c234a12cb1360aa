"""Finds faults in a driver's class: methods whose names are nearly those of CSI calls, so that nobody would call them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.csi.driver import RPCS

_CLOSE: Final = 0.85
"""difflib's ratio. `list_volume` and `create_vol` are as close, `clone_volume` is not."""


def _squeezed(name: str) -> str:
    """The same for `ListVolumes`, `listVolumes` and `list_volumes`."""
    return name.replace("_", "").lower()


_CALLS: Final[Mapping[str, str]] = {_squeezed(name): name for name in RPCS}


def _short() -> Iterator[tuple[str, str]]:
    """Shorter names of calls: without `controller_` or `node_` (the controller's where both have one), or without `volume`."""
    for prefix in ("node_", "controller_"):
        for name in RPCS:
            if name.startswith(prefix):
                yield _squeezed(name.removeprefix(prefix)), name
                yield _squeezed(name).replace("volume", ""), name


_SHORT: Final[Mapping[str, str]] = {short: name for short, name in _short() if short not in _CALLS}


def class_fault(driver: type, base: type) -> str | None:
    """The problem of the methods that a driver's class adds to its base class, None for none."""
    return next(_faults(driver, base), None)


def _faults(driver: type, base: type) -> Iterator[str]:
    own = (name for name in dir(driver) if not name.startswith("_"))
    for name, value in ((name, getattr(driver, name, None)) for name in own):
        if value is getattr(base, name, None):
            continue
        if name in RPCS and not _is_coroutine(value):
            yield f"{driver.__name__}.{name} must be a coroutine: async def {name}(self, request), without yield"
        elif name not in RPCS and (meant := _meant(name, value)):
            yield f"{driver.__name__}.{name} is no call of CSI: did you mean {meant}? (the name of a helper begins with _)"


def _meant(name: str, value: Any) -> str | None:
    """The call whose name was meant. A plain function is taken for one only where capitals and underscores alone differ."""
    squeezed = _squeezed(name)
    if not inspect.isroutine(value):
        return None
    if squeezed in _CALLS or not _is_coroutine(value):
        return _CALLS.get(squeezed)
    close = difflib.get_close_matches(squeezed, _CALLS, n=1, cutoff=_CLOSE)
    meant = _SHORT.get(squeezed) or (_CALLS[close[0]] if close else None)
    return None if meant and name.startswith(f"{meant}_") else meant  # create_volume_dir: a step of that call


def _is_coroutine(value: Any) -> bool:
    """True for a coroutine function, also behind decorators that say what they wrap (functools.wraps)."""
    return callable(value) and inspect.iscoroutinefunction(inspect.unwrap(value))
