"""asyncio without TLS, for the programs that run once for each driver on each node: 4 MiB of memory less for each.

asyncio imports ssl where Python has it and does without where Python was built without it; nothing else of asyncio
changes. A program that speaks over unix sockets and plain HTTP alone asks for the second. None in sys.modules is the
documented word for "there is no such module"; it stands there during this one import, so that whoever needs ssl later
has it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


def import_asyncio() -> None:
    """Imports asyncio, without ssl. Changes nothing where either has been imported before."""
    modules: dict[str, Any] = sys.modules
    if "ssl" in modules or "asyncio" in modules:
        return
    modules["ssl"] = None
    try:
        importlib.import_module("asyncio")
    finally:
        del modules["ssl"]
