"""The liveness probe: turns the kubelet's GET /healthz into the driver's Probe."""
