"""A shorter way for frequent calls: from the HTTP parser to the store, without ASGI."""
