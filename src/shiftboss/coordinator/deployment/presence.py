"""Every server records itself in the store, and looks at the others.

A row is renewed every ten seconds where servers share a database, and when a fact that servers
compare has changed: else a new policy would look like a difference for a while. It has the facts in
which servers of one deployment should agree, and what an operator wants to know. Each component
adds the facts that it knows: `presence.facts["clock_skew_ms"] = lambda: ...`; it must be JSON, and
no secret.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, Final, NamedTuple

from shiftboss import __version__
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.duty_record import STUCK_SECONDS, DutyRecord
from shiftboss.errors import IncompatibleServers, SchemaMismatch, ShiftbossError
from shiftboss.rules.deployment.records import DeploymentServer
from shiftboss.rules.deployment.servers import (
    COMPARED_FACTS,
    KEPT_MS,
    RENEWAL_SECONDS,
    Difference,
    facts_of,
    find_differences,
    is_living,
    living_servers,
    work_together,
)
from shiftboss.store.port import Store, Transaction

log = logging.getLogger(__name__)

# The only server on a file has no other to inform: its row is for people who read the file.
ALONE_RENEWAL_SECONDS: Final = 600.0
STOP_SECONDS: Final = 2.0

Fact = Callable[[], object]


class Neighbours(NamedTuple):
    """The findings of a server when it renews its row. The own server is among the living."""

    living: list[DeploymentServer]
    retired_keys: frozenset[str]


class Presence:
    on_every_server: ClassVar[bool] = True

    def __init__(self, store: Store, clock: Clock, version: str = __version__) -> None:
        self.server_id = f"{socket.gethostname()[:60]}-{secrets.token_hex(4)}"
        self.address = ""
        self.version = version
        self.facts: dict[str, Fact] = {"pid": os.getpid, "leads": self._leads}
        self.differences: list[Difference] = []
        # Called when a newer version has made the database unusable for this one.
        self.on_outdated: Callable[[ShiftbossError], None] = _log_outdated
        # Called with the other servers that live, each time when this one has looked at them.
        self.on_seen: Callable[[Sequence[DeploymentServer]], None] = _ignore
        self._store = store
        self._clock = clock
        self._started_at_ms = 0
        self._compared: Mapping[str, object] = {}
        self.seconds = RENEWAL_SECONDS if store.shared else ALONE_RENEWAL_SECONDS
        self.record = DutyRecord(type(self).__name__, max(STUCK_SECONDS, 5 * self.seconds))

    async def join(self) -> None:
        """Raises IncompatibleServers if living servers and this one cannot work together."""
        self._started_at_ms = self._clock()
        others = await self._store.read(self._living_others)
        apart = [other for other in others if not work_together(self.version, other.version)]
        if apart:
            raise _incompatible(self.version, apart)
        await self.renew()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.seconds)
            try:
                with self.record.round():
                    await self.renew()
            except ShiftbossError as error:
                log.warning("this server cannot record itself in the store: %s", error.detail)
            except Exception:
                log.exception("this server cannot record itself in the store")
            failing = self._store.failing()
            if isinstance(failing, SchemaMismatch):
                self.on_outdated(failing)

    async def renew(self) -> None:
        now_ms = self._clock()
        row = self.row(now_ms)
        is_alone = not self._store.shared
        self._compared = self._compared_facts()
        use_case = partial(_renew, row=row, now_ms=now_ms, is_alone=is_alone)
        self._compare(await self._store.write(use_case, partition=""))

    async def renew_if_changed(self) -> None:
        """After the settings of the deployment, or the files of this server, were read again: until
        its row says so, the others would take a new policy, key or token for a difference. This
        server does not compare now, because the others learn of it at the same time."""
        compared = self._compared_facts()
        if not self._started_at_ms or compared == self._compared:
            return
        row = self.row(self._clock())
        with suppress(ShiftbossError):
            await self._store.write(lambda tx: tx.put_server(row), partition="")
            self._compared = compared

    def _compared_facts(self) -> dict[str, object]:
        return {name: fact() for name, fact in self.facts.items() if name in COMPARED_FACTS}

    async def leave(self) -> None:
        """The others need not wait until it counts as gone."""
        if not self._started_at_ms:
            return
        now_ms = self._clock()
        row = self.row(now_ms, now_ms)
        with suppress(ShiftbossError, TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._store.write(lambda tx: tx.put_server(row), partition="")

    def row(self, now_ms: int, stopped_at_ms: int | None = None) -> DeploymentServer:
        facts = {name: value for name, fact in self.facts.items() if (value := fact()) is not None}
        return DeploymentServer(
            self.server_id,
            socket.gethostname(),
            self.address,
            self.version,
            self._started_at_ms,
            now_ms,
            stopped_at_ms,
            json.dumps(facts),
        )

    def _living_others(self, tx: Transaction) -> list[DeploymentServer]:
        if not self._store.shared:
            return []  # the lock of the file keeps all others out
        now_ms = self._started_at_ms
        return [
            other
            for other in tx.servers()
            if is_living(other, now_ms) and other.server_id != self.server_id
        ]

    def _compare(self, neighbours: Neighbours) -> None:
        """Say differences once, when they change."""
        self.on_seen([each for each in neighbours.living if each.server_id != self.server_id])
        differences = find_differences(neighbours.living, neighbours.retired_keys)
        known = {difference.detail for difference in self.differences}
        for difference in differences:
            if difference.detail in known:
                continue
            level = logging.INFO if difference.severity == "information" else logging.WARNING
            log.log(level, "%s; %s", difference.detail, difference.todo)
        self.differences = differences

    def _leads(self) -> bool:
        try:
            self._store.leader_term()
        except ShiftbossError:
            return False
        return True


def _ignore(_others: Sequence[DeploymentServer]) -> None:
    pass


def _log_outdated(error: ShiftbossError) -> None:
    log.error("%s; %s", error.detail, error.hint)


def _renew(tx: Transaction, row: DeploymentServer, now_ms: int, *, is_alone: bool) -> Neighbours:
    tx.forget_servers(now_ms - KEPT_MS)
    tx.put_server(row)
    if is_alone:
        return Neighbours([row], frozenset())
    retired = (key.key_id for key in tx.signing_keys() if key.retired_at_ms is not None)
    return Neighbours(living_servers(tx.servers(), now_ms), frozenset(retired))


def _incompatible(version: str, apart: list[DeploymentServer]) -> IncompatibleServers:
    named = ", ".join(f"{server.version} at {server.address} on {server.host}" for server in apart)
    stops = "; ".join(
        f"on {server.host}: kill {facts_of(server).get('pid', '')}".rstrip() for server in apart
    )
    return IncompatibleServers(
        f"version {version} does not work together with the servers on this database: {named}",
        hint=f"stop them first, or upgrade by one minor version at a time ({stops})",
    )
