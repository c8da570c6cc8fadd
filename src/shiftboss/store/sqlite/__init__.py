"""The SQLite store: one database file, one server."""
