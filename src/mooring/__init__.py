"""The CSI control plane of Kubernetes, in Python."""

__version__ = "0.1.0"
