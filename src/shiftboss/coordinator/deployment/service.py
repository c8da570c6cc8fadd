"""The reports of a database's servers about themselves, and whether this one may get traffic.

Other parts add to it: `facts` are put into the row of this server, `not_ready` are checks of their
own (None: nothing is wrong), `credentials` lists what is missing to ask a forge.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from shiftboss.coordinator.claims.claim_passes import living_verifiers
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment.keys import KeyService, key_view
from shiftboss.coordinator.deployment.presence import Fact, Presence
from shiftboss.coordinator.duties.duty_record import DutyRecord
from shiftboss.coordinator.duties.supervision import DutyGroup
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.deployment.servers import (
    DeploymentView,
    DifferenceView,
    DiskView,
    ReadinessProblemView,
    ServerView,
    ShowDeploymentRequest,
    WaitingClaimView,
)
from shiftboss.protocol.fields import wire_time
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.deployment.readiness import (
    DiskSpace,
    ReadinessProblem,
    reason_of_disk,
    reason_of_stuck_duty,
    warning_of_disk,
)
from shiftboss.rules.deployment.records import DeploymentServer, StoredKey
from shiftboss.rules.deployment.servers import (
    Difference,
    facts_of,
    find_differences,
    living_servers,
)
from shiftboss.store.port import Store, Transaction

CLAIMS_SHOWN_MAX: Final = 50

Check = Callable[[], ReadinessProblem | None]


class _DeploymentRows(NamedTuple):
    servers: list[DeploymentServer]
    keys: list[StoredKey]
    claims: list[Claim]
    verifiers: dict[str, int]


class DeploymentService:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        hub: Hub,
        presence: Presence,
        keys: KeyService,
        check_health: Callable[[], Awaitable[None]],
        duties: Iterable[DutyGroup],
    ) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self.presence = presence
        self._keys = keys
        self._check_health = check_health
        self._duties = list(duties)
        self.not_ready: dict[str, Check] = {}
        # The problems of a server that may still get traffic.
        self.degraded: dict[str, Check] = {}
        # Those that ask the store.
        self.degraded_in_store: list[Callable[[], Awaitable[ReadinessProblem | None]]] = []
        self.credentials: Callable[[], Awaitable[Iterable[str]]] = _no_problems
        # Which data is where on this machine.
        self.folders: dict[str, Path] = {}

    @property
    def facts(self) -> dict[str, Fact]:
        return self.presence.facts

    @property
    def differences(self) -> list[Difference]:
        """As of the last look at the other servers."""
        return self.presence.differences

    async def reasons(self) -> list[ReadinessProblem]:
        """Why this server must not get traffic now; nothing if it may."""
        problems: list[ReadinessProblem | None] = [
            ReadinessProblem("stopping", "the server is stopping") if self._hub.closed else None,
            await self._reason_of_store(),
            *(_reason_of_duties(group) for group in self._duties),
            *self._stuck_duties(),
            *(reason_of_disk(disk) for disk in await self._disks()),
            *(check() for check in self.not_ready.values()),
        ]
        if self._keys.problem is not None:
            problems.append(ReadinessProblem("key", self._keys.problem))
        return [reason for reason in problems if reason is not None]

    async def warnings(self) -> list[ReadinessProblem]:
        """Problems that need attention, although this server may get traffic."""
        problems = [
            *(warning_of_disk(disk) for disk in await self._disks()),
            *(check() for check in self.degraded.values()),
            *[await check() for check in self.degraded_in_store],
        ]
        return [warning for warning in problems if warning is not None]

    def _stuck_duties(self) -> Iterator[ReadinessProblem]:
        for record in self.duty_records:
            seconds = record.stuck_for_seconds
            if seconds is not None:
                yield reason_of_stuck_duty(record.name, seconds, record.last_error)

    @property
    def duty_records(self) -> list[DutyRecord]:
        return [duty.record for group in self._duties for duty in group.duties]

    async def _reason_of_store(self) -> ReadinessProblem | None:
        try:
            await self._check_health()
        except StoreUnavailable as error:
            return ReadinessProblem("store", error.detail, error.hint or "")
        return None

    async def _disks(self) -> list[DiskSpace]:
        return await asyncio.to_thread(_disks, self.folders)

    async def show_deployment(
        self, _request: ShowDeploymentRequest, _key: str | None = None
    ) -> DeploymentView:
        now_ms = self._clock()
        rows = await self._store.read(lambda tx: _read(tx, now_ms))
        servers = self._with_own(rows.servers, now_ms)
        living = self._living(servers, now_ms)
        retired = {key.key_id for key in rows.keys if key.retired_at_ms is not None}
        reasons = await self.reasons()
        facts = {server.server_id: facts_of(server) for server in living}
        return DeploymentView(
            server_id=self.presence.server_id,
            version=self.presence.version,
            store=self._store.name,
            schema_version=self._store.schema_version,
            ready=not reasons,
            reasons=[reason_view(reason) for reason in reasons],
            warnings=[reason_view(warning) for warning in await self.warnings()],
            servers=[_server_view(server, server in living) for server in servers],
            differences=[difference_view(each) for each in find_differences(living, retired)],
            keys=[key_view(key) for key in rows.keys],
            leader=next((name for name, each in facts.items() if each.get("leads")), None),
            clock_skew_ms=_numbers(facts, "clock_skew_ms"),
            policy=_policy(facts.get(self.presence.server_id, {})),
            verifiers={name: wire_time(at_ms) for name, at_ms in rows.verifiers.items()},
            waiting_claims=[_claim_view(claim) for claim in rows.claims],
            webhooks=_latest(facts.values(), "webhooks"),
            credentials=list(await self.credentials()),
            disks=[DiskView(**disk._asdict()) for disk in await self._disks()],
        )

    def _with_own(self, servers: list[DeploymentServer], now_ms: int) -> list[DeploymentServer]:
        """The row of this server as it would be now: that of a single server is seldom renewed."""
        own = self.presence.row(now_ms)
        return [own if server.server_id == own.server_id else server for server in servers]

    def _living(self, servers: list[DeploymentServer], now_ms: int) -> list[DeploymentServer]:
        """A file has one server at a time: this one."""
        if self._store.shared:
            return living_servers(servers, now_ms)
        return [server for server in servers if server.server_id == self.presence.server_id]


async def _no_problems() -> Iterable[str]:
    return ()


# Digests of tokens are compared, but never shown.
# Facts that are not shown: the digests of tokens that servers compare, and the names of waiting
# workers, which may be many.
_HIDDEN_FACTS: Final = frozenset({"operator_token", "token", "polling"})


def _read(tx: Transaction, now_ms: int) -> _DeploymentRows:
    return _DeploymentRows(
        tx.servers(),
        tx.signing_keys(),
        tx.open_claims("", CLAIMS_SHOWN_MAX),
        living_verifiers(tx, now_ms),
    )


def _reason_of_duties(group: DutyGroup) -> ReadinessProblem | None:
    if group.failure is None:
        return None
    detail = f"a background duty ended: {group.failure}"
    return ReadinessProblem(
        "duties", detail, "it is started again; the log of the server has the error"
    )


def _disks(folders: Mapping[str, Path]) -> list[DiskSpace]:
    """Folders on one disk are one entry, so that what is wrong with it is said once."""
    disks: dict[int, DiskSpace] = {}
    for what, path in folders.items():
        try:
            device, usage = path.stat().st_dev, shutil.disk_usage(path)
        except OSError:
            continue
        if device in disks:
            disks[device] = disks[device]._replace(what=f"{disks[device].what} and the {what}")
        else:
            disks[device] = DiskSpace(what, str(path), usage.free, usage.total)
    return list(disks.values())


def _state(server: DeploymentServer, is_living: bool) -> Literal["living", "silent", "stopped"]:
    if is_living:
        return "living"
    return "silent" if server.stopped_at_ms is None else "stopped"


def _server_view(server: DeploymentServer, is_living: bool) -> ServerView:
    facts = facts_of(server)
    return ServerView(
        server_id=server.server_id,
        host=server.host,
        address=server.address,
        version=server.version,
        state=_state(server, is_living),
        started_at=wire_time(server.started_at_ms),
        seen_at=wire_time(server.seen_at_ms),
        leads=is_living and facts.get("leads") is True,
        verifies=facts.get("verifies") is True,
        key_id=str(facts.get("key_id", "")),
        facts={name: facts[name] for name in facts if name not in _HIDDEN_FACTS},
    )


def reason_view(reason: ReadinessProblem) -> ReadinessProblemView:
    return ReadinessProblemView(**reason._asdict())


def difference_view(difference: Difference) -> DifferenceView:
    return DifferenceView(**difference._asdict())


def _claim_view(claim: Claim) -> WaitingClaimView:
    return WaitingClaimView(
        swarm_id=claim.swarm_id,
        bead_id=claim.task_id,
        claim_id=claim.claim_id,
        asked_at=wire_time(claim.asked_at_ms),
        tries=claim.tries,
        taken_by=claim.taken_by,
    )


def _numbers(facts: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, float]:
    values = {server_id: each.get(name) for server_id, each in facts.items()}
    return {
        server_id: value for server_id, value in values.items() if isinstance(value, int | float)
    }


def _policy(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about the policy that this server says."""
    return {name: value for name, value in facts.items() if name.startswith("policy")}


def _latest(facts: Iterable[Mapping[str, Any]], name: str) -> dict[str, str]:
    """When each was seen last, by any server."""
    latest: dict[str, int] = {}
    for each in facts:
        seen = each.get(name)
        if not isinstance(seen, dict):
            continue
        for key, at_ms in seen.items():
            if isinstance(at_ms, int):
                latest[key] = max(at_ms, latest.get(key, 0))
    return {key: wire_time(at_ms) for key, at_ms in sorted(latest.items())}
