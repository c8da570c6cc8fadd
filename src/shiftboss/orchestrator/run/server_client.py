"""The orchestrator's calls to the server, each retried until the server answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from shiftboss.client.errors import ServerBusy, ServerUnreachable
from shiftboss.client.http_client import HttpClient, ServerRequest, new_idempotency_key
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Servers
from shiftboss.defaults import OPERATOR_TOKEN_FILE, OPERATOR_TOKEN_VARIABLE
from shiftboss.errors import Forbidden, SchemaMismatch, ShiftbossError, SwarmExists

ANSWER_SECONDS: Final = 30.0
PAGE: Final = 500
# A restart of the server takes less.
OUTAGE_SECONDS: Final = 2.0

_SET_TOKEN: Final = (
    f"set {OPERATOR_TOKEN_VARIABLE} to the token in {OPERATOR_TOKEN_FILE} beside the database of "
    "that server"
)
_OWN_SERVER: Final = "or leave out --server and SHIFTBOSS_URL: then the run starts its own server"


class RunServerClient:
    """The calls of one run, which works on one swarm. Every call raises what the server refuses."""

    def __init__(
        self,
        server: Server | Servers,
        swarm_id: str,
        operator_token: str | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """`report` gets a line when the server does not answer for long, and when it does again."""
        self.server = Servers.at(server)
        self.swarm_id = swarm_id
        self._operator_token = operator_token
        self._runs_as_operator = operator_token is not None
        self._outage = _Outage(self.server, report or (lambda _: None))
        self._http = HttpClient(self.server)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)

    async def call(
        self,
        operation: str,
        *,
        wait_seconds: float = 0,
        operator: bool = False,
        **members: object,
    ) -> dict[str, Any]:
        """`wait_seconds` is how long the server itself may take before it answers."""
        path = f"/{'operator' if operator else 'bus'}/{operation}"
        return await self._post(path, members, wait_seconds)

    async def all_of(self, operation: str, member: str) -> list[dict[str, Any]]:
        """The items that an operation lists as `member`, from all its pages."""
        items: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = await self.call(operation, after=after, limit=PAGE)
            items += page[member]
            after = page["next_after"]
        return items

    async def spawn(self, **members: object) -> dict[str, Any]:
        """Give a task its contract. A server that a run has started allows it only to the operator,
        any other server decides for itself. Every server takes held-out tests from the operator
        alone. Raises Forbidden, with what to do about it."""
        if members.get("held_out") is not None:
            if self._operator_token is None:
                raise self._may_not_hold_out()
            return await self._call_as_operator("spawn_subtask", members)
        return await self._call_as_run("swarm_spawn_subtask", "spawn_subtask", members)

    async def report_run(self, plan_file: Path, auto_merge: bool) -> None:
        """Tell the server which plan its advice should name, by its absolute path. Raises Forbidden
        as `spawn` does."""
        path = str(plan_file)
        if path.isprintable():
            members = {"plan_file": path, "auto_merge": auto_merge}
            await self._call_as_run("report_run", "report_run", members)

    async def release_files(self, workers: Sequence[str]) -> None:
        await self._call_as_run("release_files", "release_files", {"workers": workers})

    async def _call_as_run(
        self, operation: str, operator_operation: str, members: Mapping[str, object]
    ) -> dict[str, Any]:
        """As the operator, if the run knows the token: what the operator planned accounts for more
        than what a worker asked for."""
        if self._runs_as_operator:
            try:
                return await self._post(f"/operator/{operator_operation}", members)
            except Forbidden:
                self._runs_as_operator = False
        try:
            return await self._post(f"/bus/{operation}", members)
        except Forbidden:
            raise self._may_not_spawn() from None

    async def _call_as_operator(
        self, operator_operation: str, members: Mapping[str, object]
    ) -> dict[str, Any]:
        try:
            return await self._post(f"/operator/{operator_operation}", members)
        except Forbidden:
            raise self._may_not_spawn() from None

    def _may_not_spawn(self) -> Forbidden:
        return Forbidden(
            f"only the operator may spawn tasks at {self.server.addresses}",
            field="server",
            hint=f"{_SET_TOKEN}; or start it with `shiftboss serve --spawning everybody`; "
            f"{_OWN_SERVER}",
        )

    def _may_not_hold_out(self) -> Forbidden:
        return Forbidden(
            f"only the operator may hold tests out at {self.server.addresses}",
            field="held_out",
            hint=f"{_SET_TOKEN}; {_OWN_SERVER}",
        )

    async def set_budget(self, **members: object) -> dict[str, Any]:
        """A plan that was edited may raise a budget, if the run knows the operator's token. A plan
        that was not edited leaves a budget of the operator as it is."""
        try:
            return await self._post("/bus/set_budget", members)
        except Forbidden:
            if self._operator_token is None:
                raise
            return await self._post("/operator/set_budget", members)

    async def login_link(self) -> str | None:
        """A link to the page of the swarm; None if the run does not know the operator's token."""
        if self._operator_token is None:
            return None
        try:
            answer = await self._post("/operator/create_login", {})
        except ShiftbossError:
            return None
        return str(answer["url"])

    async def create_swarm(self, goal: str) -> None:
        """A swarm that exists already stays as it is."""
        try:
            await self._post("/swarm/create", {"feature": goal})
        except SwarmExists:
            pass

    async def _post(
        self, path: str, members: Mapping[str, object], wait_seconds: float = 0
    ) -> dict[str, Any]:
        given = {name: value for name, value in members.items() if value is not None}
        is_operator = self._operator_token is not None and path.startswith("/operator/")
        request = ServerRequest(
            path=path,
            body=given | {"swarm_id": self.swarm_id},
            key=new_idempotency_key(),
            headers={"Shiftboss-Operator": self._operator_token or ""} if is_operator else {},
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=2.0, read=ANSWER_SECONDS + wait_seconds),
        )
        reply = await self._http.send_until_answered(request, self._outage.note_failure)
        self._outage.note_answer()
        return reply.answer


class _Outage:
    """Reports that the server does not answer, once, if it lasts."""

    def __init__(self, server: Servers, report: Callable[[str], None]) -> None:
        self._server = server
        self._report = report
        self._failing_since: float | None = None
        self._is_reported = False

    def note_failure(self, error: ServerUnreachable) -> None:
        """Raises SchemaMismatch, after which no attempt can succeed."""
        if isinstance(error, ServerBusy) and isinstance(error.problem, SchemaMismatch):
            raise error.problem
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if not self._is_reported and now - self._failing_since >= OUTAGE_SECONDS:
            self._is_reported = True
            self._report(f"{error.detail}; trying again")

    def note_answer(self) -> None:
        if self._is_reported:
            self._report(f"{self._server.address} answers again")
        self._failing_since, self._is_reported = None, False
