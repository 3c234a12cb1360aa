"""The cluster's side of snapshots: makes contents for snapshots, binds both, keeps their finalizers, and copies the
status.

Single snapshots and groups are two rows of a table of kinds; a group makes the snapshots of its members. The end of a
snapshot, and the protection of contents and of claims that a snapshot is made from, are decisions of their own.
"""
