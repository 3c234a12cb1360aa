"""Kubernetes objects as typed structs that decode only the fields used."""
