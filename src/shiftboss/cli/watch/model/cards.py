"""The board: cards in groups by state, in an order that does not change while a task is in
progress."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

SortKey = tuple[int, int, str]


class Column(NamedTuple):
    """`mark` and `word` say what the colour says, for people who do not see it."""

    name: str
    word: str
    mark: str
    style: str


COLUMNS: Final = {
    column.name: column
    for column in (
        Column("needs_you", "needs you", "!", "bold yellow"),
        Column("failed", "failed", "✗", "bold red"),
        Column("running", "running", "▸", "cyan"),
        Column("verifying", "verifying", "◇", "cyan"),
        Column("waiting", "waiting", "·", ""),
        Column("accepted", "accepted", "+", "green"),
        Column("done", "done", "✓", "dim"),
    )
}
# In the same group as what is done, but it was not.
_CANCELLED: Final = Column("done", "cancelled", "-", "dim")
_NEWEST_FIRST: Final = frozenset({"failed", "accepted", "done"})
_OTHER: Final = "waiting"


@dataclass(frozen=True, slots=True)
class BoardCard:
    """A task as the board shows it. `since` is when it entered the state that it is in, or when
    its attempt started; `text` is why it is there, or what its agent does."""

    task_id: str
    title: str
    column: str
    status: str
    agent: str
    worker: str
    repo: str
    since: int
    rank: SortKey
    dollars: float | None
    tokens: int | None
    budget_dollars: float | None
    context_usage: float | None
    ci: str
    state: str
    text: str
    command: str
    attempt: int
    hold: str
    question_ids: tuple[int, ...]
    scope_request_ids: tuple[int, ...]
    in_review: bool

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> BoardCard:
        column = members.get("column")
        column = column if column in COLUMNS else _OTHER
        since = _since(column, members)
        return cls(
            task_id=str(members["bead_id"]),
            title=str(members.get("title") or ""),
            column=column,
            status=str(members.get("status") or ""),
            agent=str(members.get("agent") or members.get("worker") or ""),
            worker=str(members.get("worker") or ""),
            repo=str(members.get("repo") or ""),
            since=since,
            rank=_rank(column, since, members),
            dollars=members.get("dollars"),
            tokens=members.get("tokens"),
            budget_dollars=members.get("budget_dollars"),
            context_usage=members.get("context_usage"),
            ci=str(members.get("ci") or ""),
            state=_state(members),
            text=_text(column, members),
            command=str(members.get("command") or ""),
            attempt=int(members.get("attempt") or 0),
            hold=str(members.get("hold") or ""),
            question_ids=tuple(members.get("question_ids") or ()),
            scope_request_ids=tuple(members.get("scope_request_ids") or ()),
            in_review=_in_review(members.get("review")),
        )

    @property
    def look(self) -> Column:
        return _CANCELLED if self.status == "cancelled" else COLUMNS[self.column]

    def matches(self, words: Iterable[str]) -> bool:
        """Whether it has all of the words, which are in lower case."""
        fields = (self.task_id, self.title, self.agent, self.worker, self.repo, self.text)
        word = self.look.word
        searched = "\n".join((*fields, word, self.state, self.ci)).lower()
        return all(part in searched for part in words)


def _since(column: str, members: Mapping[str, Any]) -> int:
    names: tuple[str, ...] = ("updated_at", "created_at")
    if column in ("running", "verifying"):
        names = ("started_at", *names)
    elif column in _NEWEST_FIRST:
        names = ("ended_at", *names)
    return next((int(members[name]) for name in names if members.get(name)), 0)


def _rank(column: str, since: int, members: Mapping[str, Any]) -> SortKey:
    """Ended tasks: the newest first. All else in the order in which it was planned."""
    task_id = str(members["bead_id"])
    if column in _NEWEST_FIRST:
        return -since, 0, task_id
    return -int(members.get("priority") or 0), int(members.get("created_at") or 0), task_id


def _state(members: Mapping[str, Any]) -> str:
    return str(members.get("milestone") or members.get("state") or members.get("status") or "")


def _text(column: str, members: Mapping[str, Any]) -> str:
    names = ("reason", "last_error", "step")
    if column in ("running", "verifying"):
        names = ("step", "reason", "substate")
    return next((str(members[name]) for name in names if members.get(name)), "")


def _in_review(review: object) -> bool:
    state = review.get("state") if isinstance(review, Mapping) else review
    return state == "open"


class Heading(NamedTuple):
    column: Column
    cards: int


class Board:
    """Cards by column. A change costs what the changed cards cost, however many there are."""

    def __init__(self) -> None:
        self._cards: dict[str, BoardCard] = {}
        self._groups: dict[str, list[SortKey]] = {name: [] for name in COLUMNS}
        self._words: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many tasks there are, with those that the filter leaves out."""
        return len(self._cards)

    def counts(self) -> dict[str, int]:
        return {name: len(group) for name, group in self._groups.items()}

    def get(self, task_id: str) -> BoardCard | None:
        return self._cards.get(task_id)

    def put(self, cards: Iterable[BoardCard]) -> None:
        for card in cards:
            self._take_out(card.task_id)
            self._cards[card.task_id] = card
            if card.matches(self._words):
                insort(self._groups[card.column], card.rank)

    def remove(self, task_ids: Iterable[str]) -> None:
        for task_id in task_ids:
            self._take_out(task_id)
            self._cards.pop(task_id, None)

    def keep_only(self, task_ids: Collection[str]) -> None:
        self.remove([task_id for task_id in self._cards if task_id not in task_ids])

    def filter(self, text: str) -> None:
        self._words = tuple(text.lower().split())
        groups: dict[str, list[SortKey]] = {name: [] for name in COLUMNS}
        for card in self._cards.values():
            if card.matches(self._words):
                groups[card.column].append(card.rank)
        for group in groups.values():
            group.sort()
        self._groups = groups

    def _take_out(self, task_id: str) -> None:
        card = self._cards.get(task_id)
        if card is None:
            return
        group = self._groups[card.column]
        index = bisect_left(group, card.rank)
        if index < len(group) and group[index] == card.rank:
            del group[index]

    def __len__(self) -> int:
        """The rows: the cards, and a heading for each group that is not empty."""
        return sum(len(group) + 1 for group in self._groups.values() if group)

    def __getitem__(self, row: int) -> Heading | BoardCard:
        for name, group in self._groups.items():
            if not group:
                continue
            if row == 0:
                return Heading(COLUMNS[name], len(group))
            if row <= len(group):
                return self._cards[group[row - 1][2]]
            row -= len(group) + 1
        raise IndexError(row)

    def row_of(self, task_id: str) -> int | None:
        card = self._cards.get(task_id)
        if card is None:
            return None
        before = 0
        for name, group in self._groups.items():
            if name == card.column:
                index = bisect_left(group, card.rank)
                is_shown = index < len(group) and group[index] == card.rank
                return before + index + 1 if is_shown else None
            before += len(group) + 1 if group else 0
        return None

    def headings(self) -> list[int]:
        """The rows that have a heading."""
        rows, row = [], 0
        for group in self._groups.values():
            if group:
                rows.append(row)
                row += len(group) + 1
        return rows
