"""A small scheduler: places pods on ready nodes, and does for their volumes everything that kube-scheduler does."""
