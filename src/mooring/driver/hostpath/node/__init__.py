"""The host-path driver on a node: volumes come to paths, and leave them without a trace."""
