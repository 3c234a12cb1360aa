"""Publishes how much room the driver has where, as CSIStorageCapacity objects for the scheduler."""
