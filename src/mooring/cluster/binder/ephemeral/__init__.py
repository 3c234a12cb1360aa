"""Creates the claims of generic ephemeral volumes."""
