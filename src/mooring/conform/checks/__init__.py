"""What conform asks: a file for each part of CSI, and those for what an orchestrator does when things go wrong."""
