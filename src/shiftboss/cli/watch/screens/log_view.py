"""The output of a task's agent, as it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.strip import Strip
from textual.widgets import Static

from shiftboss.cli.common.client import NoServer, NotShiftboss, RequestRefused
from shiftboss.cli.common.discovery import here_command
from shiftboss.cli.common.output import printable, printable_lines
from shiftboss.cli.watch.link.live import Live
from shiftboss.cli.watch.link.log_reading import LogPart, load_log
from shiftboss.cli.watch.screens.documents import ScrolledText, drawn

LOG_SECONDS: Final = 1.0
_STYLES: Final = {
    "tool": "cyan",
    "denied": "bold yellow",
    "limit": "bold yellow",
    "error": "bold red",
    "stderr": "dim",
    "finished": "bold",
}
# Kinds that their colour alone would not tell from others.
_WORDS: Final = {"denied": "denied: ", "limit": "limit: ", "error": "error: ", "stderr": "! "}


class LogView(Vertical):
    """Reads on while it is visible. The arrows choose another attempt."""

    DEFAULT_CSS = "LogView > .head { height: 1; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "attempt(-1)", "earlier attempt", show=False, priority=True),
        Binding("right", "attempt(1)", "later attempt", show=False, priority=True),
    ]

    def __init__(self, live: Live) -> None:
        super().__init__(id="log")
        self._live = live
        self.document = ScrolledText()
        self._head = Static(classes="head")
        self._shown: tuple[str, str] | None = None
        self._epoch: int | None = None
        self._epochs: list[int] = []
        self._cursor: str | None = None
        self._has_lines = False
        self._is_reading = False

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.document

    def on_mount(self) -> None:
        self.set_interval(LOG_SECONDS, self._read_on)

    def show(self, swarm_id: str, task_id: str) -> None:
        if self._shown != (swarm_id, task_id):
            self._shown = (swarm_id, task_id)
            self._restart(None)

    def action_attempt(self, step: int) -> None:
        if self._epoch in self._epochs:
            index = self._epochs.index(self._epoch) + step
            if 0 <= index < len(self._epochs):
                self._restart(self._epochs[index])

    def _restart(self, epoch: int | None) -> None:
        self._epoch, self._cursor, self._has_lines = epoch, None, False
        self.document.replace([])
        self._is_reading = True
        self.run_worker(self._read(), exclusive=True, group="log")

    def _read_on(self) -> None:
        if self.display and self._shown is not None and not self._is_reading:
            self._is_reading = True
            self.run_worker(self._read(), exclusive=True, group="log")

    async def _read(self) -> None:
        try:
            while await self._read_part():
                pass
        except RequestRefused as refusal:
            self._title(refusal.detail)
        except (NoServer, NotShiftboss):
            pass  # the line at the top says so
        finally:
            self._is_reading = False

    async def _read_part(self) -> bool:
        """Whether there is more."""
        assert self._shown is not None
        swarm_id, task_id = self._shown
        is_first = self._cursor is None
        part = await self._live.ask(load_log(swarm_id, task_id, self._epoch, self._cursor))
        width = self.document.scrollable_content_region.width - 1
        if part.problem:
            drawn = await self._live.ask(lambda _: problem_lines(part, width))
            self.document.replace(drawn)
            self._title(task_id)
            return False
        drawn = await self._live.ask(lambda _: log_lines(part.lines, width))
        if is_first:
            self.document.replace([])
        if drawn:
            self.document.extend(drawn)
        self._epoch, self._epochs = part.epoch, part.epochs
        self._cursor = part.cursor
        self._has_lines = self._has_lines or bool(part.lines)
        state = "live" if part.is_live else "ended"
        silent = "" if self._has_lines else " · the agent has said nothing"
        self._title(f"{task_id} · attempt {part.epoch} of {len(part.epochs)} · {state}{silent}")
        return part.more

    def _title(self, text: str) -> None:
        self._head.update(Text(printable(text), "dim", no_wrap=True, overflow="ellipsis"))


def log_lines(lines: Sequence[Mapping[str, Any]], width: int) -> list[Strip]:
    """Called in a thread."""
    return drawn([_line(line) for line in lines], width)


def _line(line: Mapping[str, Any]) -> Text:
    kind = str(line.get("kind") or "text")
    text = printable_lines(line.get("text") or "")
    return Text(f"{_WORDS.get(kind, '')}{text}", _STYLES.get(kind, ""), overflow="fold")


def problem_lines(part: LogPart, width: int) -> list[Strip]:
    """The command has a line of its own, where it can be copied."""
    command = printable(here_command(part.command))
    return drawn([Text(printable(part.problem), "dim"), Text(command)], width)
