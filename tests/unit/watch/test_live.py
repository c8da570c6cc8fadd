"""What the terminal view loads when something has changed, and that it forgets none of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from shiftboss.cli.common.client import Client, NoServer, RequestRefused
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.watch.link.feed import Changed, Connected, FeedEvent, Lost, Reload
from shiftboss.cli.watch.link.live import Live
from shiftboss.cli.watch.model.state import Model
from shiftboss.errors import ShiftbossError

pytestmark = pytest.mark.requirement("OWN-04")

BUSY = RequestRefused(b"", {"detail": "too many requests", "status": 429})
SILENT = NoServer("the server does not answer")

BUS = ("receipts", "landed", "done", "total", "cancelled", "active", "dollars", "tokens")
STATUS = {
    "swarm_id": "s",
    "status": "running",
    "bus": dict.fromkeys(BUS, 0),
    "created_at": "2026-01-01T00:00:00Z",
    **dict.fromkeys(("workers_complete", "workers_registered", "workers_running"), 0),
}


class Server(Client):
    """The answers about a swarm with one task. A request whose path ends with a key of `refusals`
    is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.title, self.last_event_id = "before", 1
        self.refusals: dict[str, ShiftbossError] = {}
        self.boards_read = 0

    def change(self) -> None:
        self.title, self.last_event_id = "after", self.last_event_id + 1

    def get(
        self,
        path: str,
        query: Mapping[str, object] | None = None,  # noqa: ARG002
    ) -> bytes:
        answers: dict[str, Mapping[str, Any]] = {
            "/swarms": {"swarms": [STATUS], "next_before": None},
            "/swarm/s/status": STATUS | {"last_event_id": self.last_event_id},
        }
        return self._answer(path, answers[path])

    def post(
        self,
        path: str,
        body: Mapping[str, object],
        key: str | None = None,  # noqa: ARG002
        seconds: float = 0.0,  # noqa: ARG002
    ) -> bytes:
        card = {"bead_id": "t", "title": self.title, "column": "running", "status": "active"}
        self.boards_read += path == "/bus/list_cards" and "bead_ids" not in body
        answers: dict[str, Mapping[str, Any]] = {
            "/bus/show_usage": {"swarm": {}},
            "/bus/list_inbox": {"items": [], "total": 0},
            "/bus/list_cards": {"cards": [card], "next_after": None, "server_time": 0},
        }
        return self._answer(path, answers[path])

    def _answer(self, path: str, answer: Mapping[str, Any]) -> bytes:
        for end, error in self.refusals.items():
            if path.endswith(end):
                raise error
        return json.dumps(answer).encode()


class Session(ServerSession):
    def __init__(self, server: Server) -> None:
        super().__init__(None, None, as_json=False)
        self.__dict__["client"] = server

    @property
    def is_offline(self) -> bool:
        return False


class Watched:
    """A view that is loaded step by step."""

    def __init__(self) -> None:
        self.server = Server()
        self.session = Session(self.server)
        self.model = Model(chosen="s")
        self.live = Live(self.session, self.model, lambda: None)

    async def load_after(self, *events: FeedEvent) -> bool:
        for event in events:
            self.live._take(event)
        self.live._wake.clear()
        self.live._swarm_due = 0.0  # as if a second had passed
        return await self.live._load_pending()

    @property
    def title(self) -> str:
        card = self.model.board.get("t")
        return card.title if card else ""


def watch(steps: Callable[[Watched], Awaitable[None]]) -> None:
    async def run() -> None:
        watched = Watched()
        assert await watched.load_after(Connected(watched.session))
        assert (watched.title, watched.model.is_loaded) == ("before", True)
        await steps(watched)
        watched.live._close()

    asyncio.run(run())


@pytest.mark.parametrize("event", [Reload(), Changed({"s": {"tasks": None}})])
def test_a_newer_header_does_not_make_the_board_newer(event: FeedEvent) -> None:
    async def steps(watched: Watched) -> None:
        watched.server.change()
        assert await watched.load_after(Changed({"s": {"tasks": []}}))
        assert watched.title == "before"
        assert await watched.load_after(event)
        assert watched.title == "after"

    watch(steps)


def test_a_board_in_which_nothing_has_happened_is_not_read_again() -> None:
    async def steps(watched: Watched) -> None:
        assert await watched.load_after(Reload())
        assert watched.server.boards_read == 1
        watched.server.change()
        assert await watched.load_after(Reload())
        assert await watched.load_after(Reload())
        assert watched.server.boards_read == 2

    watch(steps)


@pytest.mark.parametrize("error", [BUSY, SILENT])
@pytest.mark.parametrize("path", ["status", "list_inbox", "list_cards"])
@pytest.mark.parametrize(
    "event", [Reload(), Changed({"s": {"tasks": None}}), Changed({"s": {"tasks": ["t"]}})]
)
def test_what_was_not_loaded_is_loaded_later(
    event: FeedEvent, path: str, error: ShiftbossError
) -> None:
    async def steps(watched: Watched) -> None:
        watched.server.change()
        watched.server.refusals = {path: error}
        assert not await watched.load_after(event)
        assert watched.live._wake.is_set(), "it tries again by itself"
        assert error in (watched.model.refused, watched.model.lost)
        watched.server.refusals = {}
        assert await watched.load_after()
        assert watched.title == "after"
        assert (watched.model.refused, watched.model.lost) == (None, None)

    watch(steps)


def test_without_the_feed_nothing_is_tried_until_it_is_back() -> None:
    async def steps(watched: Watched) -> None:
        watched.server.change()
        watched.server.refusals = {"swarms": SILENT}
        assert await watched.load_after(Lost(SILENT), Reload())
        assert not watched.live._wake.is_set()
        watched.server.refusals = {}
        assert await watched.load_after()
        # Changes are unknown as long as there is no feed.
        assert (watched.title, watched.model.lost) == ("after", SILENT)
        assert await watched.load_after(Connected(watched.session))
        assert (watched.title, watched.model.lost) == ("after", None)

    watch(steps)
