"""The bottom: clock, randomness, log, metrics, errors, units, flags. No Kubernetes, no CSI."""
