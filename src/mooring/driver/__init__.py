"""An SDK for writing CSI drivers."""
