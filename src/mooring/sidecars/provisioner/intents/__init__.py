"""The journal of volumes that may exist at the driver, stored in Leases before each request."""
