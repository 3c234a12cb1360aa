"""What is known on a node: the volumes that pods want, the volumes that are here, and what stands on the disk."""
