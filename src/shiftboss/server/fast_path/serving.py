"""Turns the fast path on: the only module of this package that the rest of the server uses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from shiftboss.server.fast_path.connection import FastConnection
from shiftboss.server.fast_path.core_affinity import (
    has_quota,
    let_children_use,
    stay_on_one_core,
    usable_cores,
)
from shiftboss.server.fast_path.head_cache import HeadCache
from shiftboss.server.http.app import App
from shiftboss.server.http.connection import Serving
from shiftboss.server.http.open_connections import OpenConnections
from shiftboss.server.settings import CpuUse


def fast_serving(
    app: App, open_connections: OpenConnections, database_folder: Path | None, cpu: CpuUse
) -> Serving:
    connections = fast_connections(app, open_connections)
    cores = usable_cores()
    if cpu == "all" or len(cores) < 2 or has_quota():
        return Serving(connections, (open_connections.watch,))
    let_children_use(cores)
    return Serving(
        connections,
        (open_connections.watch, partial(stay_on_one_core, cores, database_folder)),
    )


def fast_connections(app: App, open_connections: OpenConnections) -> Callable[..., FastConnection]:
    """Makes the connections of a server; they share one cache of heads."""
    return partial(
        FastConnection,
        app.calls,
        app.guard,
        app.rates,
        app.forwarding,
        HeadCache(),
        app.access_log,
        app.monitor.requests,
        open_connections=open_connections,
    )
