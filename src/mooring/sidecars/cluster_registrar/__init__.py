"""The cluster registrar: makes the CSIDriver object of one driver, where no manifest does."""
