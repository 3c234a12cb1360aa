"""The live view of a plane: nodes, volumes and the reason that each waits, below the calls and writes as they go by."""
