"""A worker between the proxy and a real server, and what checks do with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

from shiftboss.client.server_address import Server
from shiftboss.conformance.calls import ServerCalls
from shiftboss.conformance.checks import Broken
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.own_server import RestartableServer
from shiftboss.conformance.proxy import RecordingProxy
from shiftboss.conformance.worker_process import RunningWorker, StartsWorkers

WORKER: Final = "conformance-worker"
HEARTBEAT_SECONDS: Final = 0.5

T = TypeVar("T")


class WaitLimits(NamedTuple):
    """How long the kit waits for a worker to do something."""

    seconds: float = 20.0


@dataclass(slots=True)
class OutcomeReport:
    """The end of a task as the worker reported it."""

    exchange: Exchange
    outcome: str
    reason: str


class WorkerHarness:
    """`swarm` is one of its own: a server may serve others."""

    def __init__(
        self,
        server: RestartableServer,
        proxy: RecordingProxy,
        start: StartsWorkers,
        folder: Path,
        limits: WaitLimits,
    ) -> None:
        self.server = server
        self.proxy = proxy
        self.limits = limits
        self.folder = folder
        self.swarm = f"conformance-{uuid4().hex[:12]}"
        self.calls = ServerCalls(Server(server.url, None))
        self.worker: RunningWorker | None = None
        self._start = start
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self.stop_worker()
        self.calls.close()

    def number(self) -> int:
        return next(self._numbers)

    # what the runner of checks asks for

    def wire_position(self) -> int:
        return len(self.proxy.exchanges)

    def wire_lines(self, since: int) -> list[str]:
        return [exchange.line() for exchange in self.proxy.exchanges[since:]]

    def recover(self) -> None:
        self.proxy.clear_faults()
        self.stop_worker()

    # the worker

    def start_worker(self, environment: Mapping[str, str]) -> RunningWorker:
        self.stop_worker()
        common = {"SHIFTBOSS_URL": self.proxy.url, "SHIFTBOSS_SWARM": self.swarm}
        self.worker = self._start({**common, **environment}, self.folder)
        return self.worker

    def stop_worker(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker = None

    def ended(self) -> str | None:
        """How the worker ended, if it did."""
        code = self.worker.exit_code() if self.worker is not None else None
        if code is None or self.worker is None:
            return None
        output = self.worker.last_output()
        return f"the worker ended with exit code {code}" + (f": {output}" if output else "")

    # waiting

    def wait(self, what: str, found: Callable[[], T | None], *, may_end: bool = False) -> T:
        """What `found` returns once it is something. Raises Broken if that takes too long, or if
        the worker has ended."""

        def found_or_ended() -> tuple[T | None, str | None] | None:
            result = found()
            if result is not None:
                return result, None
            ended = None if may_end else self.ended()
            return (None, ended) if ended else None

        outcome = self.proxy.wait(found_or_ended, self.limits.seconds)
        if outcome is None:
            ended = self.ended()
            detail = f"; {ended}" if ended else ""
            raise Broken(f"{what}: not seen within {self.limits.seconds:g} s{detail}")
        result, ended = outcome
        if result is None:
            raise Broken(f"{what}: not seen; {ended}")
        return result

    def since(self, position: int, operation: str) -> list[Exchange]:
        """The requests of an operation since a position."""
        later = self.proxy.exchanges[position:]
        return [exchange for exchange in later if exchange.operation == operation]

    def next_of(
        self,
        operation: str,
        position: int,
        what: str,
        fits: Callable[[Exchange], bool] = lambda _: True,
    ) -> Exchange:
        def found() -> Exchange | None:
            requests = self.since(position, operation)
            return next((request for request in requests if fits(request)), None)

        return self.wait(what, found)

    def operator(self, operation: str, **members: object) -> dict[str, Any]:
        """A call to the server that the worker does not see."""
        return self.calls.bus(operation, swarm_id=self.swarm, **members)
