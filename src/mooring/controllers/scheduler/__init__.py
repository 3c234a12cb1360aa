"""A small scheduler: places pods on nodes that are ready, and does for their volumes all that kube-scheduler does."""
