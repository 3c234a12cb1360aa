"""The files that `mooring driver new` begins a driver with. Their names and words stand for those of the new driver."""
