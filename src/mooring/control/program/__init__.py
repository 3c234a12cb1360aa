"""What every program of controllers has: terms of its work under a Lease, probes and metrics."""
