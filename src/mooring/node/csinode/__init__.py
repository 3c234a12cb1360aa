"""The node's statements about its drivers: the CSINode object, and the Node's annotation and labels."""
