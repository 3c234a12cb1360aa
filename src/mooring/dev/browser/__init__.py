"""`mooring dev --browser`: the plane as one page, served on loopback by this process."""
