"""The parts of every program of controllers: terms of its work under a Lease, probes and metrics."""
