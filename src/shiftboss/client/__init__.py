"""The HTTP client for the server: addresses, retries, errors, event streams."""
