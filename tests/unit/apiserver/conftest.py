"""Fixtures of the API server's tests."""

from __future__ import annotations

import pytest

from mooring.apiserver.store import ObjectStore
from tests.unit.apiserver.objects import a_store


@pytest.fixture
def store() -> ObjectStore:
    return a_store()
