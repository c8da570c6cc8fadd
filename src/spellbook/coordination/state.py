"""The store that holds the server's state."""

from shiftboss.store.open_store import store_at
from shiftboss.store.port import Store

__all__ = ["Store", "store_at"]
