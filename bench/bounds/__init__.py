"""What the API server alone costs: the requests of provisioning, attaching and snapshots, without a controller."""
