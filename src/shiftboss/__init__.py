"""Shiftboss coordinates swarms of AI coding agents. Done is proven, not claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftboss.worker.backends import get_backend
    from shiftboss.worker.bus_producer import BusProducer
    from shiftboss.worker.bus_worker import BusWorker
    from shiftboss.worker.swarm_worker import SwarmWorker

__version__ = "0.2.0"

__all__ = ["BusProducer", "BusWorker", "SwarmWorker", "__version__", "get_backend"]


def __getattr__(name: str) -> object:
    # Late: the worker's side brings an HTTP client, which the server and the commands do not need.
    if name == "BusProducer":
        from shiftboss.worker.bus_producer import BusProducer

        return BusProducer
    if name == "BusWorker":
        from shiftboss.worker.bus_worker import BusWorker

        return BusWorker
    if name == "SwarmWorker":
        from shiftboss.worker.swarm_worker import SwarmWorker

        return SwarmWorker
    if name == "get_backend":
        from shiftboss.worker.backends import get_backend

        return get_backend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
