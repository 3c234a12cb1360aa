"""Group snapshots, the cluster's side: one content for a group, and then a snapshot and a content for each of its volumes."""
