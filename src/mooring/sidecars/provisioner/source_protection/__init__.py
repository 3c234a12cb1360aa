"""Keeps what volumes are made from until they are made: finalizers on snapshots and on claims."""
