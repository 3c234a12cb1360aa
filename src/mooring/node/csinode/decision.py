"""A driver's data about itself on a node, and why that may not be written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from mooring.base.errors import MooringError

COUNT_MAX: Final = 2**31 - 1


class Refused(MooringError):
    """The driver's data can't be written to the Node or the CSINode."""


@dataclasses.dataclass(frozen=True, slots=True)
class DriverOnNode:
    """The answer to NodeGetInfo. limit: volumes of the driver on the node at the most; 0 or less for none that it knows.

    version: as GetPluginInfo gives it; None where it was not asked.
    """

    driver: str
    node_id: str
    limit: int
    topology: Mapping[str, str]
    version: str | None = None

    @property
    def count(self) -> int | None:
        """The limit as CSINode can hold it, None for none."""
        return min(self.limit, COUNT_MAX) if self.limit > 0 else None
