"""The HTTP client for the server: address, errors, retries with backoff, event streams."""
