"""Group snapshots, the driver's side: the snapshots of all volumes of a group, made and deleted in one call."""
