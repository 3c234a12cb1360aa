"""The bottom: clock, chance, log, metrics, errors, units, flags. No Kubernetes, no CSI."""
