"""The connection: requests in threads, the feed of changes, and the model kept in step."""
