"""Records of calls to a driver: written by the proxy, and asked again of a driver."""
