"""The driver's side of snapshots: makes and deletes the snapshots of contents, and writes the driver's answers to their
status.

It communicates with `cluster/snapshots` through the content: annotations in one direction, the status in the other.
Single snapshots and groups are two rows of a table of kinds, `api/snapshot_kinds.py`. `creation.py` is the creation of
a snapshot as a state machine; `decide.py` gives the next step, and `decide_after.py` what follows from the driver's
answer. Decision 0014 counts the writes, and says why none is lost.
"""
