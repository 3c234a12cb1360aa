"""The client of a Kubernetes API server: HTTP, credentials, kubeconfig files."""
