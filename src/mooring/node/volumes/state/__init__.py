"""The knowledge of a node: the volumes that pods want, the volumes that are here, and what stands on the disk."""
