"""The harness of a packet worker: one packet of a swarm, whose tasks are lines of a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from shiftboss.conformance.checks import Broken
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.worker.harness import WorkerHarness

PACKET_ID: Final = 7
PACKET_NAME: Final = "backend-api"
OTHER_PACKET_ID: Final = 8
FINAL_COMMIT: Final = "def5678901"
REPORTS: Final = ("register", "progress", "complete", "error")
PLAIN_STEPS: Final = ("task-1 done", "task-2 done", "task-3 done")


@dataclass(slots=True)
class Packet:
    """A packet in a swarm of its own. `position` is where its exchanges begin."""

    swarm_id: str
    worktree: Path
    steps: Sequence[str]
    position: int
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def checkpoint_path(self) -> Path:
        name = f"packet-{PACKET_ID}-{PACKET_NAME}.json"
        return self.worktree / ".spellbook" / "checkpoints" / name

    def checkpoint(self) -> dict[str, Any] | None:
        """The checkpoint on disk; empty if it is not JSON."""
        try:
            document = json.loads(self.checkpoint_path.read_bytes())
        except OSError:
            return None
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}


class PacketHarness(WorkerHarness):
    def prepare(self) -> None:
        pass

    @cached_property
    def plain(self) -> Packet:
        """A packet without any trouble, whose swarm has another packet that is not complete."""
        packet = self.new_packet(PLAIN_STEPS, with_other=True)
        self.run(packet)
        self.wait_for_end()
        return packet

    def new_packet(self, steps: Sequence[str], *, with_other: bool = False) -> Packet:
        number = self.number()
        worktree = self.folder / f"tree-{number}"
        worktree.mkdir()
        steps_file = self.folder / f"steps-{number}"
        steps_file.write_text("".join(f"{step}\n" for step in steps))
        packet = Packet(f"conformance-{uuid4().hex[:12]}", worktree, steps, self.wire_position())
        packet.environment = self.environment(packet, steps_file)
        expected = {"workers_expected": 2} if with_other else {}
        self.calls.post("/swarm/create", {"swarm_id": packet.swarm_id, **expected})
        return packet

    def environment(self, packet: Packet, steps_file: Path) -> dict[str, str]:
        return {
            "SHIFTBOSS_SWARM": packet.swarm_id,
            "SHIFTBOSS_PACKET_ID": str(PACKET_ID),
            "SHIFTBOSS_PACKET_NAME": PACKET_NAME,
            "SHIFTBOSS_WORKTREE": str(packet.worktree),
            "SHIFTBOSS_STEPS": str(steps_file),
            "SHIFTBOSS_FINAL_COMMIT": FINAL_COMMIT,
        }

    def run(self, packet: Packet) -> None:
        """Start the worker. The checkpoint on disk is read whenever one of its reports arrives."""

        def note_checkpoint(exchange: Exchange) -> None:
            exchange.noted = packet.checkpoint()

        self.proxy.on_arrival = note_checkpoint
        self.start_worker(packet.environment)

    def _has_ended(self) -> str | None:
        return self.ended()

    def wait_for_end(self) -> str:
        return self.wait("the worker ends", self._has_ended, may_end=True)

    # what the worker has sent

    def reports(self, packet: Packet, *operations: str) -> list[Exchange]:
        return [
            exchange
            for exchange in self.proxy.exchanges[packet.position :]
            if exchange.operation in (operations or REPORTS)
            and exchange.path == f"/swarm/{packet.swarm_id}/{exchange.operation}"
        ]

    def accepted(self, packet: Packet, *operations: str) -> list[Exchange]:
        """The reports that the server has taken, each once: repeats have the same content."""
        taken: list[Exchange] = []
        for exchange in self.reports(packet, *operations):
            is_taken = exchange.status is not None and exchange.status < 300
            is_known = any(_is_same(exchange, other) for other in taken)
            if is_taken and not is_known:
                taken.append(exchange)
        return taken

    def wait_for(self, packet: Packet, operation: str) -> Exchange:
        def found() -> Exchange | None:
            return next(iter(self.accepted(packet, operation)), None)

        # A process that delivers what is left may outlive the worker.
        return self.wait(f"{operation} of the packet", found, may_end=True)

    def on_server(self, packet: Packet) -> dict[str, Any]:
        """The packet as the server knows it."""
        status = self.calls.get(f"/swarm/{packet.swarm_id}/status").document
        for worker in status.get("workers") or ():
            if worker.get("packet_id") == PACKET_ID:
                view: dict[str, Any] = worker
                return view
        raise Broken(f"the server knows no packet {PACKET_ID} of {packet.swarm_id}")


def _is_same(exchange: Exchange, other: Exchange) -> bool:
    return (exchange.operation, exchange.arguments) == (other.operation, other.arguments)
