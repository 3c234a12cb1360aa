"""Bugs to plant in the node agent, each of which the simulation must find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.sim.planting import Bug

BUGS: Final[Mapping[str, Bug]] = {}
