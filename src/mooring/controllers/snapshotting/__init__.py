"""What snapshot-controller and csi-snapshotter share: the names that they know each other by, and the parameters of classes."""
