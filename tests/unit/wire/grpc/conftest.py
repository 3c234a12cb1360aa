"""Fixtures of the gRPC room: those of csi's, whose servers its tests use."""

from tests.unit.csi.conftest import log, socket

__all__ = ["log", "socket"]
