"""The loop with time of its own, and the mark of the tests that run on it."""

from __future__ import annotations

from typing import Final

import pytest

from mooring.base.virtual_loop import Deadlock, VirtualLoop, run_virtual

__all__ = ["Deadlock", "VirtualLoop", "in_virtual_time", "run_virtual"]

in_virtual_time: Final = pytest.mark.virtual_time
"""Marks a test, or as `pytestmark` all tests of a module: the coroutine functions among them run in virtual time
(tests/conftest.py).
"""
