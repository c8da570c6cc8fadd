"""Running a worker through the checks of its profile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from shiftboss.conformance.checks import Broken, Check, Result, chosen, run_checks
from shiftboss.conformance.own_server import RestartableServer
from shiftboss.conformance.proxy import RecordingProxy, proxying
from shiftboss.conformance.worker import (
    bus_faults,
    bus_loop,
    bus_messages,
    packet_faults,
    packet_reports,
)
from shiftboss.conformance.worker.bus_harness import BusHarness
from shiftboss.conformance.worker.harness import WORKER, WaitLimits
from shiftboss.conformance.worker.packet_harness import PacketHarness
from shiftboss.conformance.worker_process import StartsWorkers
from shiftboss.errors import InvalidRequest

Profile = Literal["bus", "packet"]

BUS_CHECKS: Final[list[Check[BusHarness]]] = [
    *bus_loop.LOOP,
    *bus_faults.FAULTS,
    *bus_messages.MESSAGES,
    *bus_messages.RECORD,
]
PACKET_CHECKS: Final[list[Check[PacketHarness]]] = [*packet_reports.REPORTS, *packet_faults.FAULTS]


class WorkerKit:
    """`server` is a real one, which the kit may kill. `folder` is for the files of the worker."""

    def __init__(
        self,
        start: StartsWorkers,
        server: RestartableServer,
        folder: Path,
        limits: WaitLimits,
    ) -> None:
        self._start = start
        self._server = server
        self._folder = folder
        self._limits = limits

    def run(
        self,
        profile: Profile,
        only: Sequence[str] = (),
        on_result: Callable[[Result], None] = lambda _: None,
    ) -> list[Result]:
        with proxying(self._server.url) as proxy:
            harness: Any = self._bench(profile, proxy)
            try:
                harness.prepare()
                return run_checks(chosen(checks_of(profile), only), harness, on_result)
            finally:
                harness.close()

    def detect(self) -> Profile:
        """The profile by the first report of the worker, which is given both environments."""
        with proxying(self._server.url) as proxy:
            harness = self._bench("packet", proxy)
            assert isinstance(harness, PacketHarness)
            packet = harness.new_packet(["task-1 done"], with_other=True)
            try:
                harness.start_worker({**packet.environment, "SHIFTBOSS_WORKER": WORKER})
                return harness.wait("a first call of the worker", lambda: _profile_of(proxy))
            except Broken as broken:
                raise InvalidRequest(
                    f"profile: cannot tell which one the worker has: {broken}",
                    field="profile",
                    hint="start it by hand to see why it ends"
                    if harness.ended()
                    else "give --profile bus or --profile packet",
                ) from None
            finally:
                harness.close()

    def _bench(self, profile: Profile, proxy: RecordingProxy) -> BusHarness | PacketHarness:
        folder = self._folder / f"{profile}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        bench_class = BusHarness if profile == "bus" else PacketHarness
        return bench_class(self._server, proxy, self._start, folder, self._limits)


def checks_of(profile: Profile) -> Sequence[Check[Any]]:
    return BUS_CHECKS if profile == "bus" else PACKET_CHECKS


def _profile_of(proxy: RecordingProxy) -> Profile | None:
    for exchange in proxy.exchanges:
        if exchange.operation == "register":
            return "packet"
        if exchange.path.startswith("/bus/") or exchange.path in ("/mcp", "/messages"):
            return "bus"
    return None
