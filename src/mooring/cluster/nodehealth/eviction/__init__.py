"""Pods leave nodes with NoExecute taints."""
