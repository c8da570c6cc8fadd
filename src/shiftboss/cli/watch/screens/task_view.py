"""The facts of one task and its diff, and how they are laid out as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text
from textual.strip import Strip

from shiftboss.cli.common.client import NoServer, NotShiftboss
from shiftboss.cli.common.event_stream import StreamEvent
from shiftboss.cli.common.output import printable
from shiftboss.cli.views.bus import task_summary
from shiftboss.cli.views.events import event_line
from shiftboss.cli.views.handoffs import claim_lines, handoff_summary
from shiftboss.cli.views.overview import reason_lines
from shiftboss.cli.watch.link.live import Live
from shiftboss.cli.watch.link.task_facts import LoadedTask, load_task
from shiftboss.cli.watch.model.cards import BoardCard
from shiftboss.cli.watch.screens.documents import ScrolledText, drawn

Members = Mapping[str, Any]

_LINES_MAX: Final = 3000
_STYLES: Final = {"+": "green", "-": "red"}
# The file under the contract. Owned files need no remark.
_SCOPES: Final = {
    "outside": ("outside of the contract", "bold red"),
    "readonly": ("read only", "bold red"),
    "generated": ("generated", "yellow"),
}


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


class TaskPage(NamedTuple):
    """The lines of a task, and where its parts begin."""

    lines: list[Strip]
    stops: list[int]


def task_page(facts: LoadedTask, width: int) -> TaskPage:
    """Called in a thread."""
    at = datetime.now(UTC)
    lines: list[Strip] = []
    stops: list[int] = []
    for title, part in _parts(facts, at, width):
        if not part:
            continue
        stops.append(len(lines))
        head = [Text(), _heading(title, width)] if title else []
        lines += drawn([*head, *part], width)
    return TaskPage(lines, stops)


def _heading(title: str, width: int) -> Text:
    return Text(f"── {title} ".ljust(max(width - 1, 0), "─"), "dim", no_wrap=True)


def _parts(
    facts: LoadedTask, at: datetime, width: int
) -> list[tuple[str, Sequence[RenderableType]]]:
    claim = facts.handoff.get("last_claim") if facts.handoff else None
    return [
        ("", _summary(facts, at)),
        ("why", reason_lines(list(facts.reasons), with_task=False)),
        ("verdict", claim_lines(claim)[1:] or _refusal(facts, "claims")),
        ("earlier claims", _earlier_claims(facts)),
        ("diff", diff_lines(facts.diff) if facts.diff else _refusal(facts, "diff")),
        ("contract", [handoff_summary(facts.handoff, at)] if facts.handoff else []),
        ("events", _events(facts, width)),
    ]


def _summary(facts: LoadedTask, at: datetime) -> Sequence[RenderableType]:
    return [task_summary(facts.task, at)] if facts.task else _refusal(facts, "task")


def _refusal(facts: LoadedTask, part: str) -> list[Text]:
    return [Text(printable(facts.refusals[part]), "dim")] if part in facts.refusals else []


def _earlier_claims(facts: LoadedTask) -> list[Text]:
    lines = []
    for claim in facts.claims[1:]:
        failed = [str(check.get("name")) for check in claim.get("checks", ()) if _failed(check)]
        by = f", by {', '.join(failed)}" if failed else ""
        text = f"claim {claim.get('claim_id')} of attempt {claim.get('epoch')}"
        lines.append(Text(printable(f"{text}: {claim.get('state')}{by}")))
    return lines


def _failed(check: Members) -> bool:
    return check.get("result") == "failed"


def _events(facts: LoadedTask, width: int) -> list[RenderableType]:
    """The newest first."""
    return [
        event_line(
            StreamEvent(
                int(event["event_id"]),
                str(event["kind"]),
                event.get("data") or {},
                datetime.fromtimestamp(event["at"] / 1000, UTC).isoformat(),
                event.get("actor"),
            ),
            columns=width,
        )
        for event in facts.events
    ]


def diff_lines(diff: Members) -> list[Text]:
    files = diff.get("files") or []
    if not files:
        return [Text("no changes", "dim")]
    added = sum(file.get("added") or 0 for file in files)
    removed = sum(file.get("removed") or 0 for file in files)
    names = "file" if len(files) == 1 else "files"
    lines = [Text(f"{len(files)} {names}, +{added} -{removed}{_between(diff)}")]
    for file in files:
        lines += _file_lines(file)
        if len(lines) > _LINES_MAX:
            break
    if len(lines) > _LINES_MAX or diff.get("truncated"):
        lines[_LINES_MAX:] = [
            Text("there is more: see the whole diff with `shiftboss diff`", "dim")
        ]
    return lines


def _between(diff: Members) -> str:
    base, commit = str(diff.get("base") or "")[:12], str(diff.get("commit") or "")[:12]
    return printable(f" between {base} and {commit}") if base and commit else ""


def _file_lines(file: Members) -> Iterator[Text]:
    yield Text()
    yield _file_head(file)
    if file.get("binary"):
        yield Text("  binary", "dim")
    for hunk in file.get("hunks") or ():
        yield Text(printable(hunk.get("header", "")), "cyan")
        for sign, content in hunk.get("lines") or ():
            text = "    ".join(printable(part) for part in str(content).split("\t"))
            yield Text(f"{printable(sign)}{text}", _STYLES.get(sign, ""))
    if file.get("truncated"):
        yield Text("  the rest of this file is left out", "dim")


def _file_head(file: Members) -> Text:
    old = file.get("old_path")
    name = f"{old} → {file['path']}" if old and old != file["path"] else str(file["path"])
    head = Text(printable(name), "bold")
    head.append(f"  +{file.get('added') or 0} -{file.get('removed') or 0}", "not bold")
    word, style = _SCOPES.get(str(file.get("scope")), ("", ""))
    return head.append(f"  {word}", style) if word else head
