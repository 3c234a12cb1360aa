"""The API server as a port, `Cluster`, its HTTP implementation, and what controllers are built from."""
