"""The cluster's side of snapshots: makes contents for snapshots, binds both, keeps their finalizers, and copies the status."""
