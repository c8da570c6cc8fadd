"""HTTP over ASGI: the app, routes, access control, event streams, OpenAPI."""
