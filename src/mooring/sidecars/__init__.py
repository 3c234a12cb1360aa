"""The programs that run beside a CSI driver, in place of the Go sidecars."""
