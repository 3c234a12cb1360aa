"""The driver's side of snapshots: makes and deletes the snapshots of contents, and writes the driver's answers to their status."""
