"""Fixtures of the drivers' tests."""

from tests.unit.driver.calls import driver, private_mounts

__all__ = ["driver", "private_mounts"]
