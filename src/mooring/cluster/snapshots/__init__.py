"""The cluster's side of snapshots: contents for snapshots, the binding of both, their finalizers, and what is known of one on the other."""
