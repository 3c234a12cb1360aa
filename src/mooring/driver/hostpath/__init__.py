"""The reference driver: volumes as folders, files and block devices of one machine, on the SDK."""
