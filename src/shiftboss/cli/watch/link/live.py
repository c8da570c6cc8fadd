"""Keeps the model in step with the server: one load at a time; changes that arrive during a load
are loaded together afterwards."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from shiftboss.cli.common.client import NoServer, NotShiftboss, RequestRefused
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.watch.link import loads
from shiftboss.cli.watch.link.feed import Changed, Connected, Feed, FeedEvent, Lost, Reload
from shiftboss.cli.watch.link.request_thread import RequestThread
from shiftboss.cli.watch.model.state import Model, newest_with_work
from shiftboss.errors import ShiftbossError

T = TypeVar("T")

# Changes within this time are drawn together.
COALESCE_SECONDS: Final = 0.2
# The header and the workers are about the whole swarm, and need not be newer than this.
SWARM_SECONDS: Final = 1.0
# Cards that are taken over between two looks at the keyboard.
CARDS_PER_STEP: Final = 500
TASKS_PER_REQUEST_MAX: Final = 500
# After a load that the server refused or did not answer, while the feed is connected.
RETRY_SECONDS: Final = 2.0
_CLOSE_SECONDS: Final = 1.0


@dataclass
class _Pending:
    """The data that has to be loaded."""

    everything: bool = False
    tasks: set[str] = field(default_factory=set)
    swarm: bool = False
    inbox: bool = False

    def __bool__(self) -> bool:
        return self.everything or self.swarm or self.inbox or bool(self.tasks)

    def add(self, other: _Pending) -> None:
        self.everything |= other.everything
        self.tasks |= other.tasks
        self.swarm |= other.swarm
        self.inbox |= other.inbox


class Live:
    """`on_change` is called in the event loop when the model has changed."""

    def __init__(self, session: ServerSession, model: Model, on_change: Callable[[], None]) -> None:
        self.model = model
        self.session = session
        self._on_change = on_change
        self._pending = _Pending(everything=True)
        self._wake = asyncio.Event()
        self._threads = {name: RequestThread(name) for name in ("board", "task", "act")}
        self._board_event_id = -1  # the board is at least as new as this event
        self._is_connected = False  # the feed
        self._generation = 0
        self._swarm_due = 0.0
        self.shows_workers = False

    async def run(self) -> None:
        """Without end."""
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()  # Textual knows its app by it

        def report(event: FeedEvent) -> None:
            try:
                loop.call_soon_threadsafe(self._take, event, context=context)
            except RuntimeError:
                feed.stop()  # the loop is closed

        feed = Feed(self.session, report)
        feed.start()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                is_loaded = await self._load_pending()
                await asyncio.sleep(COALESCE_SECONDS if is_loaded else RETRY_SECONDS)
        finally:
            feed.stop()
            self._close()

    async def ask(self, function: Callable[[ServerSession], T], thread: str = "task") -> T:
        """The result of the function, which is called in a thread. Raises what it raises."""
        session = self.session
        # Without a server, the database is read and written by one thread alone.
        chosen = self._threads["board" if session.is_offline else thread]
        return await chosen.run(lambda: function(session))

    def watch_swarm(self, swarm_id: str) -> None:
        """Show another swarm. The inbox stays that of all, unless one was named."""
        self.model.swarm_id = swarm_id
        self.model.chosen = swarm_id if self.model.chosen else None
        self._generation += 1
        self._board_event_id = -1
        self.model.board.keep_only(())
        self.model.summary, self.model.is_loaded = None, False
        self.reload()

    def show_workers(self, is_shown: bool) -> None:
        """They are loaded only while they are displayed: there may be thousands."""
        self.shows_workers = is_shown
        if is_shown:
            self._swarm_due = 0.0
            self._request_swarm()

    def reload(self) -> None:
        self._pending.everything = True
        self._wake.set()

    def reload_after(self, swarm_id: str) -> None:
        """Something was decided in this swarm. With a server, its feed tells what has changed."""
        self._pending.inbox = True
        self._pending.swarm |= swarm_id == self.model.swarm_id
        self._pending.everything = self._pending.everything or self.model.is_offline
        self._wake.set()

    def _take(self, event: FeedEvent) -> None:
        match event:
            case Connected():
                self._connect(event.session)
            case Changed():
                self._note_changes(event)
            case Reload():
                self._pending.everything = True
            case Lost():
                self._is_connected = False
                self._lose(event.error)
                return
        self._wake.set()

    def _connect(self, session: ServerSession) -> None:
        before, self.session = self.session, session
        if before is not session:
            self._threads["board"].do(before.close)
        self.model.lost, self.model.is_offline = None, session.is_offline
        self._is_connected = True
        self._board_event_id = -1
        self._pending.everything = True

    def _lose(self, error: ShiftbossError) -> None:
        if self.model.lost is None:
            self.model.lost_at = time.monotonic()
        self.model.lost = error
        self._on_change()

    def _note_changes(self, changed: Changed) -> None:
        self._pending.inbox = True
        own = changed.swarms.get(self.model.swarm_id or "")
        if own is None:
            # Work in another swarm matters if none is watched, and to the inbox.
            self._pending.everything = self._pending.everything or self.model.swarm_id is None
            return
        self._pending.swarm = True
        if own.get("tasks") is None:
            self._pending.everything = True
        else:
            self._pending.tasks |= set(own["tasks"])

    async def _load_pending(self) -> bool:
        """Returns False if it failed and is to be tried again after a pause."""
        pending, self._pending = self._pending, _Pending()
        try:
            await self._load(pending)
        except (NoServer, NotShiftboss) as error:
            self._lose(error)
            return self._keep(pending)
        except RequestRefused as error:
            self.model.refused = error
            self._on_change()
            return self._keep(pending)
        self.model.refused = None
        if self._is_connected:
            self.model.lost = None  # such as one request that was not answered in time
        self._on_change()
        return True

    def _keep(self, failed: _Pending) -> bool:
        """Nothing that has to be loaded is forgotten. Without the feed, its next connection reloads
        everything, so there is nothing to try before."""
        self._pending.add(failed)
        if self._is_connected:
            self._wake.set()
        return not self._is_connected

    async def _load(self, pending: _Pending) -> None:
        model, generation, event_id = self.model, self._generation, -1
        if pending.everything:
            model.swarms = await self.ask(loads.load_swarms, "board")
            model.swarm_id = model.swarm_id or model.chosen or newest_with_work(model.swarms)
        if model.swarm_id and (pending.everything or (pending.swarm and self._is_swarm_due())):
            event_id = await self._load_swarm(model.swarm_id, pending)
        if pending.everything or pending.inbox:
            items, total = await self.ask(loads.load_inbox(model.chosen), "board")
            model.inbox.replace(items, total)
            self._on_change()
        if pending.everything:
            await self._load_board()
            if generation == self._generation:
                self._board_event_id = event_id
        elif pending.tasks:
            await self._load_cards(sorted(pending.tasks))

    def _is_swarm_due(self) -> bool:
        """If it is too early, it is loaded when it is time."""
        early = self._swarm_due - time.monotonic()
        if early <= 0:
            return True
        asyncio.get_running_loop().call_later(early, self._request_swarm)
        return False

    def _request_swarm(self) -> None:
        self._pending.swarm = True
        self._wake.set()

    async def _load_swarm(self, swarm_id: str, pending: _Pending) -> int:
        """Returns the newest event of the swarm. The reload of a database in which nothing has
        happened since the board was loaded ends here."""
        self._swarm_due = time.monotonic() + SWARM_SECONDS
        summary, last_event_id = await self.ask(loads.load_swarm(swarm_id), "board")
        self.model.summary = summary
        if self.shows_workers:
            workers = await self.ask(loads.load_workers(swarm_id), "board")
            self.model.workers.replace(workers)
        if self.model.is_loaded and last_event_id == self._board_event_id:
            pending.everything = False
        self._on_change()
        return last_event_id

    async def _load_board(self) -> None:
        """Page by page, each drawn as it comes."""
        swarm_id, generation = self.model.swarm_id, self._generation
        if swarm_id is None:
            self.model.is_loaded = True
            return
        seen: set[str] = set()
        after: str | None = ""
        while after is not None and generation == self._generation:
            page = await self.ask(loads.load_page(swarm_id, after), "board")
            await self._put(page, generation)
            seen |= {card.task_id for card in page.cards}
            after = page.next_after
        if generation == self._generation:
            self.model.board.keep_only(seen)
            self.model.is_loaded = True

    async def _load_cards(self, task_ids: list[str]) -> None:
        swarm_id, generation = self.model.swarm_id, self._generation
        assert swarm_id is not None
        for start in range(0, len(task_ids), TASKS_PER_REQUEST_MAX):
            part = task_ids[start : start + TASKS_PER_REQUEST_MAX]
            page = await self.ask(loads.load_cards(swarm_id, part), "board")
            await self._put(page, generation)
            if generation == self._generation:
                self.model.board.remove(set(part) - {card.task_id for card in page.cards})

    async def _put(self, page: loads.Page, generation: int) -> None:
        """In steps: keys are read between them."""
        self.model.offset_ms = page.server_time - int(time.time() * 1000)
        for start in range(0, len(page.cards), CARDS_PER_STEP):
            if generation != self._generation:
                return
            self.model.board.put(page.cards[start : start + CARDS_PER_STEP])
            self._on_change()
            await asyncio.sleep(0)

    def _close(self) -> None:
        """A database is released by the thread that has used it."""
        self._threads["board"].end(self.session.close, _CLOSE_SECONDS)
        for name in ("task", "act"):
            self._threads[name].end()
