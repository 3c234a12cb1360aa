"""The annotation of a CSINode with the version of each driver registered there: CSINode itself has no field for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from mooring.api.meta import annotation
from mooring.api.storage import CSINode
from mooring.base.json_text import from_json

DRIVER_VERSIONS: Final = "mooring.dev/driver-versions"
"""A JSON object, from a driver's name to its vendor_version; kept by Mooring's node agent, and by no kubelet."""


def versions_on(csi_node: CSINode) -> dict[str, str]:
    """The versions in the annotation, by driver; none where it can't be read."""
    try:
        found = from_json(annotation(csi_node, DRIVER_VERSIONS) or "{}")
    except ValueError:
        return {}
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else {}


def versions_text(versions: Mapping[str, str]) -> str:
    return json.dumps(versions, sort_keys=True, separators=(",", ":"))
