"""Volumes grow to the size that their claims ask for: the driver's part, and the hand-over to the node."""
