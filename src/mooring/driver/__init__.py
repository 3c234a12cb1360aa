"""An SDK for writing CSI drivers, and the reference host-path driver on it."""
