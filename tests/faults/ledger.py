"""What the server has acknowledged to the workers, and whether its history agrees with that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.client import Client

SWARMS = ("faults", "default")


@dataclass
class Acknowledged:
    """`packets`: the last acknowledged count of each. `failed`: answers that say nothing, which
    only a lack of memory excuses. `bad`: answers that nothing excuses."""

    packets: dict[int, int] = field(default_factory=dict)
    submitted: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    lines: int = 0


class Ledger:
    """Reads on where it has stopped: a round must not cost more than the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._acknowledged = Acknowledged()

    def read(self) -> Acknowledged:
        """A killed process may leave half a line. It has not seen the end of that write, and goes
        on with a new line."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]
            self._offset += len(complete)
            for line in complete.decode().splitlines():
                self._add(line)
        return self._acknowledged

    def _add(self, line: str) -> None:
        kind, *words = line.split()
        self._acknowledged.lines += 1
        if kind == "progress":
            self._acknowledged.packets[int(words[0])] = int(words[1])
        elif kind == "submitted":
            self._acknowledged.submitted.add(words[0])
        elif kind == "done":
            self._acknowledged.done.add(words[0])
        elif kind == "failed":
            self._acknowledged.failed.append(line)
        else:
            self._acknowledged.bad.append(line)


class History:
    """The events of the server, read a little further after every round. Nothing may be lost,
    nothing may be there twice, and the ids have no gaps."""

    def __init__(self) -> None:
        self.events = 0
        self.excused = 0
        self._last_ids = dict.fromkeys(SWARMS, 0)
        self._counts: Counter[int] = Counter()
        self._submitted: set[str] = set()
        self._done: set[str] = set()

    def check(self, client: Client, *ledgers: Ledger) -> None:
        """The ledgers are read first: the workers go on while the events are read."""
        acknowledged = [ledger.read() for ledger in ledgers]
        for swarm_id in SWARMS:
            self._read(client, swarm_id)
        for part in acknowledged:
            assert part.bad == [], part.bad[:3]
            assert part.failed[self.excused :] == [], part.failed[self.excused :][:3]
            lost = {
                packet_id: (count, self._counts[packet_id])
                for packet_id, count in part.packets.items()
                if self._counts[packet_id] < count
            }
            assert lost == {}, f"acknowledged reports are lost: {lost}"
            assert part.submitted <= self._submitted, part.submitted - self._submitted
            assert part.done <= self._done, f"lost: {part.done - self._done}"

    def _read(self, client: Client, swarm_id: str) -> None:
        for event in client.stored_events(swarm_id, since=self._last_ids[swarm_id]):
            self._last_ids[swarm_id] += 1
            assert event.event_id == self._last_ids[swarm_id], "there is a gap between the ids"
            self.events += 1
            if event.kind == "progress_update":
                packet_id, count = event.data["packet_id"], event.data["tasks_completed"]
                assert count == self._counts[packet_id] + 1, f"twice or lost: {event}"
                self._counts[packet_id] = count
            elif event.kind == "task_added":
                self._submitted.add(event.data["bead_id"])
            elif event.kind == "task_done":
                assert event.data["bead_id"] not in self._done, f"done twice: {event}"
                self._done.add(event.data["bead_id"])
