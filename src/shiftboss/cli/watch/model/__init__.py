"""The displayed values, how each is drawn as cells, and the request that each key sends. Pure."""
