"""The facts of one task."""

from __future__ import annotations

from shiftboss.cli.common.client import NoServer, NotShiftboss
from shiftboss.cli.watch.link.live import Live
from shiftboss.cli.watch.link.task_facts import LoadedTask, load_task
from shiftboss.cli.watch.model.cards import BoardCard
from shiftboss.cli.watch.screens.documents import ScrolledText
from shiftboss.cli.watch.screens.task_page import task_page


class TaskDocument(ScrolledText):
    """Loaded again when the card of the task changes."""

    def __init__(self, live: Live) -> None:
        super().__init__(id="task")
        self._live = live
        self._facts: LoadedTask | None = None
        self._shown: tuple[str, str] | None = None
        self._card: BoardCard | None = None

    def show(self, swarm_id: str, task_id: str, card: BoardCard | None) -> None:
        if self._shown == (swarm_id, task_id) and card == self._card:
            return
        if self._shown != (swarm_id, task_id):
            self._facts = None
            self.replace([])
            self.scroll_home(animate=False)
        self._shown, self._card = (swarm_id, task_id), card
        self.run_worker(self._load(swarm_id, task_id), exclusive=True, group="task")

    async def _load(self, swarm_id: str, task_id: str) -> None:
        try:
            facts = await self._live.ask(load_task(swarm_id, task_id, self._facts))
        except (NoServer, NotShiftboss):
            self._card = None  # loaded again when the server is back
            return
        self._facts = facts
        await self._draw(facts)

    async def _draw(self, facts: LoadedTask) -> None:
        width = self.scrollable_content_region.width - 1
        page = await self._live.ask(lambda _: task_page(facts, width))
        if self._facts is facts:
            self.replace(page.lines, page.stops)

    def on_resize(self) -> None:
        if self._facts is not None:
            self.run_worker(self._draw(self._facts), exclusive=True, group="task")
