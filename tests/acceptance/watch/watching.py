"""The full-screen program on a screen in memory, with the keys of a person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.watch.screens.app import WatchApp
from tests.running import RunningServer
from tests.waiting import eventually

WAIT_SECONDS = 30.0


class Watcher:
    def __init__(self, app: WatchApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def lines(self) -> list[str]:
        """What the screen shows."""
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return [strip.text for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def row(self, words: str) -> str:
        """The first line with these words."""
        return next((line for line in self.lines if words in line), "")

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        names = {" ": "space", "'": "apostrophe"}
        await self._pilot.press(*(names.get(character, character) for character in text))

    async def shows(self, *words: str) -> None:
        """Waits until the screen has all of the words."""
        try:
            await eventually(
                lambda: all(word in self.text for word in words), str(words), WAIT_SECONDS
            )
        except AssertionError:
            raise AssertionError(f"{words} is not shown:\n{self.text}") from None

    async def asks(self, *words: str) -> None:
        """Waits until a dialog with these words takes the keys."""
        await self.shows(*words)
        await eventually(self._has_dialog, f"a dialog: {words}", WAIT_SECONDS)

    def _has_dialog(self) -> bool:
        screen = self.app.screen
        return screen is not self.app.main and screen.focused is not None

    async def hides(self, words: str) -> None:
        await eventually(lambda: words not in self.text, f"without {words}", WAIT_SECONDS)


@asynccontextmanager
async def watching(
    server: RunningServer, swarm: str | None, columns: int = 110, rows: int = 30
) -> AsyncIterator[Watcher]:
    """As the operator."""
    token = Path(server.database).parent / "operator-token"
    session = ServerSession(server.url, None, token, as_json=False)
    async with watching_session(session, swarm, columns, rows) as watcher:
        yield watcher


@asynccontextmanager
async def watching_session(
    session: ServerSession, swarm: str | None, columns: int = 110, rows: int = 30
) -> AsyncIterator[Watcher]:
    app = WatchApp(session, swarm)
    async with app.run_test(size=(columns, rows)) as pilot:
        yield Watcher(app, pilot)
