"""CustomResourceDefinitions, as JSON values."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.meta import Kind

CUSTOM_RESOURCE_DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict[str, Any]
)
"""The kind of CustomResourceDefinitions; they are read as JSON values."""
