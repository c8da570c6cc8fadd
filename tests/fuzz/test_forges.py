"""A forge that answers anything: its CI is read as far as it is valid, or is unavailable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftboss.errors import ShiftbossError
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forges.forgejo import ForgejoCi
from shiftboss.evidence.ci.forges.github import GithubCi
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.policy import CiPolicy
from shiftboss.rules.contract.ci_verdict import ci_state, judge_ci_report
from tests.fuzz.hostile import EXAMPLES, as_bytes, hostile
from tests.fuzz.targets import FORGE_ROW, STATUS

pytestmark = pytest.mark.requirement("CC-06")

SHA = "a" * 40
SEEDS = [
    json.dumps({"total_count": 1, "workflow_runs": [FORGE_ROW], "jobs": FORGE_ROW["jobs"]}),
    json.dumps([STATUS]),
    json.dumps({"task_runs": [FORGE_ROW]}),
]
ANSWER_SECONDS = 30


@asynccontextmanager
async def answering(body: bytes, status: int) -> AsyncIterator[str]:
    """A forge with one answer for every request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def look(kind: type[GithubCi] | type[ForgejoCi], body: bytes, status: int) -> None:
    async with answering(body, status) as url:
        http = ForgeHttp()
        policy = CiPolicy(
            provider="github" if kind is GithubCi else "forgejo",
            url=url,
            repository="a/b",
            required_jobs=["test"],
        )
        demand = CiDemand(repo="app", repo_path="/repo", branch="main", policy=policy)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                report = await kind(http).look(demand, SHA)
            ci_state(judge_ci_report(report, demand))
        except ShiftbossError:
            pass
        finally:
            await http.close()


@pytest.mark.parametrize("kind", [GithubCi, ForgejoCi])
def test_hostile_answers_of_a_forge_are_read_or_refused(
    kind: type[GithubCi] | type[ForgejoCi],
) -> None:
    @settings(max_examples=EXAMPLES)
    @given(hostile(SEEDS), st.sampled_from((200, 200, 200, 404, 429, 500)))
    def answer(text: str, status: int) -> None:
        asyncio.run(look(kind, as_bytes(text), status))

    answer()
