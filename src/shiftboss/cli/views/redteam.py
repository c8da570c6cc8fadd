"""The results of `shiftboss redteam` by class, and the recommended changes to the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.redteam.hacks import Hack

_ACCEPTED: Final = "bold red"
_HACKS_NAMED_MAX: Final = 6


def redteam_view(answer: Mapping[str, Any], *, is_detailed: bool) -> Iterator[RenderableType]:
    for task in answer["tasks"]:
        yield Text(f"{printable(task['bead_id'])} at {task['base_commit'][:12]}", style="bold")
        yield _hack_table(task["hacks"]) if is_detailed else _class_table(task["hacks"])
        yield from _accepted(task)
        yield Text()
    yield _summary(answer)


def hack_list(hacks: Sequence[Hack]) -> Table:
    table = plain_table(Column("CLASS", no_wrap=True), Column("HACK", no_wrap=True), "WHAT IT DOES")
    for hack in hacks:
        table.add_row(cell(hack.class_), cell(hack.name), Text(hack.title))
    return table


def _class_table(hacks: Sequence[Members]) -> Table:
    """Only the classes of which a hack was tried."""
    table = plain_table(
        Column("CLASS", no_wrap=True),
        *(Column(name, justify="right") for name in ("REFUSED", "ACCEPTED", "NOT APPLICABLE")),
        "REFUSED BY",
    )
    tried = [hack for hack in hacks if hack["outcome"] != "not_applicable"]
    for class_ in dict.fromkeys(hack["class"] for hack in tried):
        of_class = [hack for hack in hacks if hack["class"] == class_]
        outcomes = Counter(hack["outcome"] for hack in of_class)
        checks = Counter(hack["refused_by"] for hack in of_class if hack["refused_by"])
        table.add_row(
            cell(class_),
            cell(outcomes["refused"] or ""),
            cell(outcomes["accepted"] or "", _ACCEPTED),
            cell(outcomes["not_applicable"] or "", "dim"),
            Text(", ".join(f"{check} {count}" for check, count in checks.most_common())),
        )
    return table


def _hack_table(hacks: Sequence[Members]) -> Table:
    table = plain_table(Column("CLASS", no_wrap=True), Column("HACK", no_wrap=True), "OUTCOME")
    for hack in hacks:
        table.add_row(cell(hack["class"]), cell(hack["name"]), _outcome(hack))
    return table


def _outcome(hack: Members) -> Text:
    if hack["outcome"] == "accepted":
        return Text("ACCEPTED", style=_ACCEPTED)
    if hack["outcome"] == "refused":
        return Text(f"refused by {hack['refused_by']}: {printable(hack['reason'])}")
    return Text(f"not applicable: {printable(hack['reason'])}", style="dim")


def _accepted(task: Members) -> Iterator[RenderableType]:
    accepted = [hack for hack in task["hacks"] if hack["outcome"] == "accepted"]
    if not accepted:
        return
    table = plain_table(Column("ACCEPTED", no_wrap=True), "WHAT IT DOES")
    for hack in accepted:
        table.add_row(cell(hack["name"], _ACCEPTED), Text(printable(hack["title"])))
    yield Text()
    yield table
    yield Text("\nTo refuse them:")
    for advice in task["advice"]:
        yield Text(f"{printable(advice['change'])} ({_named(advice['hacks'])})")


def _named(hacks: Sequence[str]) -> str:
    named = ", ".join(hacks[:_HACKS_NAMED_MAX])
    more = len(hacks) - _HACKS_NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named


def _summary(answer: Mapping[str, Any]) -> Text:
    accepted, refused = answer["accepted"], answer["refused"]
    text = f"{pluralize(accepted + refused, 'hack')} tried: {refused} refused, {accepted} accepted"
    left_out = answer["not_applicable"]
    return Text(f"{text}; {left_out} not applicable (--all says why)" if left_out else text)
