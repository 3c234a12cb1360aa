"""Objects that outlive the process: an SQLite file, group commit, the state folder, backup and restore."""
