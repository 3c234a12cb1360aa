"""Pods that no kubelet will ever remove."""
