"""A proxy between a driver and its callers: it watches and records calls, and makes faults that a script orders."""
