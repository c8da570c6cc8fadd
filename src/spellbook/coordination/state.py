"""Where the server keeps what it is told."""

from shiftboss.store.opening import store_at
from shiftboss.store.port import Store

__all__ = ["Store", "store_at"]
