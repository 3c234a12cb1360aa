"""The CSI driver as a port, `Driver`, over gRPC and in process."""
