"""Simulated packet workers: real reports, delivered by the real rounds of the outbox, from a
simulated disk that outlives the worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from shiftboss.client.errors import ServerUnreachable
from shiftboss.client.http_client import HttpClient, ServerReply, ServerRequest
from shiftboss.simulator.network import ADDRESS, SimulatedHttp
from shiftboss.worker.delivery import DeliveryRound
from shiftboss.worker.outbox import Entry, Outbox

if TYPE_CHECKING:
    from shiftboss.simulator.world import World

STEPS = 3
PACKET_SWARM = "packets"
ReportName = Literal["register", "progress", "complete", "error"]


class _StoredFile:
    """A file of the outbox."""

    def __init__(self, files: dict[int, Entry], number: int) -> None:
        self._files, self.number = files, number

    def unlink(self, *, missing_ok: bool) -> None:
        assert missing_ok
        self._files.pop(self.number, None)


class SimulatedOutbox(Outbox):
    """An outbox on a simulated disk: what was appended is there after a crash."""

    def __init__(self) -> None:
        super().__init__(Path("/simulated/outbox"))
        self.entries: dict[int, Entry] = {}
        self.refused: list[tuple[Entry, str]] = []
        self._last = 0

    def append(self, entry: Entry) -> None:
        self._last += 1
        self.entries[self._last] = entry

    def files(self) -> list[Path]:
        return [cast("Path", _StoredFile(self.entries, number)) for number in sorted(self.entries)]

    def read(self, file: Path) -> Entry | None:
        return self.entries.get(cast("_StoredFile", file).number)

    def reject(self, file: Path, reason: str) -> None:
        number = cast("_StoredFile", file).number
        self.refused.append((self.entries.pop(number), reason))


class _Lockstep(HttpClient):
    """Lets code that blocks run beside the event loop, one of the two at a time: the loop waits
    while the code runs, and the code waits while its request is on the network."""

    def __init__(self, http: SimulatedHttp) -> None:
        super().__init__(ADDRESS)
        self._http = http
        self._to_loop = threading.Semaphore(0)
        self._to_code = threading.Semaphore(0)
        self._request: ServerRequest | None = None
        self._reply: ServerReply | BaseException | None = None
        self._error: BaseException | None = None

    def send_blocking(self, request: ServerRequest) -> ServerReply:
        self._request = request
        self._to_loop.release()
        self._to_code.acquire()
        if isinstance(self._reply, BaseException):
            raise self._reply
        assert self._reply is not None
        return self._reply

    async def run(self, code: Callable[[], None]) -> None:
        threading.Thread(target=self._run_code, args=(code,), daemon=True).start()
        while True:
            self._to_loop.acquire()
            request, self._request = self._request, None
            if request is None:
                break
            try:
                self._reply = await self._http.send(request)
            except Exception as error:  # noqa: BLE001 (raised again, in the code)
                self._reply = error
            except asyncio.CancelledError:
                # The worker dies: its code ends where it is.
                self._reply = ServerUnreachable("the worker died")
                self._to_code.release()
                raise
            self._to_code.release()
        if self._error is not None:
            raise self._error

    def _run_code(self, code: Callable[[], None]) -> None:
        try:
            code()
        except BaseException as error:  # noqa: BLE001 (raised again, on the loop)
            self._error = error
        self._to_loop.release()


class PacketWorker:
    """Works on one packet. `crash` loses everything but the outbox and the number of the step."""

    def __init__(self, world: World, packet_id: int, swarm_id: str) -> None:
        self.world = world
        self.packet_id = packet_id
        self.swarm_id = swarm_id
        self.name = f"packet-worker-{packet_id}"
        self.outbox = SimulatedOutbox()
        self._keys = 0
        self._steps_done = 0
        self._is_registered = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = self.world.spawn(self._run())

    def crash(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        chance = self.world.chance
        if not self._is_registered:
            self._report("register", packet_name=self.name, tasks_total=STEPS, worktree="/w")
            self._is_registered = True
        while self._steps_done <= STEPS:
            await asyncio.sleep(chance.uniform(1, 60))
            if chance.happens(0.2):
                self._report("error", task_id="s", error_type="timeout", message="slow")
            self._next_step()
            await self._deliver()
        while not await self._deliver():  # noqa: ASYNC110 - of virtual time
            await asyncio.sleep(5)

    def _next_step(self) -> None:
        if self._steps_done < STEPS:
            self._steps_done += 1
            self._report(
                "progress",
                task_id=f"s{self._steps_done}",
                task_name="a step",
                status="completed",
                tasks_completed=self._steps_done,
                tasks_total=STEPS,
            )
        else:
            self._steps_done += 1
            self._report("complete", final_commit="abc1234", tests_passed=True, review_passed=True)

    def _report(self, operation: ReportName, **members: object) -> None:
        self._keys += 1
        if operation == "error":
            members["recoverable"] = True
        key = f"{self.name}-{self._keys}"
        body = {"packet_id": self.packet_id, **members}
        entry = Entry(swarm_id=self.swarm_id, operation=operation, key=key, body=body)
        self.outbox.append(entry)

    async def _deliver(self) -> bool:
        """One round. Whether nothing is left."""
        client = _Lockstep(SimulatedHttp(self.world, self.name))
        round_ = DeliveryRound(self.outbox, client, None)
        try:
            await client.run(round_.deliver_all)
        except ServerUnreachable:
            return False
        return not self.outbox.entries

    @property
    def is_finished(self) -> bool:
        """Whether it has reported everything, and nothing of that waits or was refused."""
        has_reported = self._steps_done > STEPS
        return has_reported and not self.outbox.entries and not self.outbox.refused
