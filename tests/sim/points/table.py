"""All scripts, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.sim.points import attaching, claims, copying, growing, leading, nodes, planes, snapping
from tests.sim.points.script import Script

SCRIPTS: Final[Mapping[str, Script]] = {
    script.name: script
    for module in (attaching, leading, claims, copying, growing, snapping, nodes, planes)
    for script in module.SCRIPTS
}
