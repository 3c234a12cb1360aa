"""The driver's side of snapshots: makes and deletes what contents stand for, and writes on them what the driver says."""
