"""Which keys apply to what is selected, and the request that each one sends."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.cli.watch.model import actions
from shiftboss.cli.watch.model.actions import Selection
from shiftboss.cli.watch.model.cards import BoardCard
from shiftboss.cli.watch.model.inbox import InboxRows, Item, item_segments
from shiftboss.cli.watch.model.state import Model, newest_with_work

pytestmark = pytest.mark.requirement("OWN-12")


def item(kind: str, **members: Any) -> Item:
    return Item.of({"kind": kind, "swarm_id": "s", "bead_id": "t", "text": "why", **members})


def target(*items: Item, status: str = "done") -> Selection:
    card = BoardCard.of({"bead_id": "t", "status": status, "column": "needs_you"})
    return Selection("s", "t", card, items)


@pytest.mark.parametrize(
    ("kind", "members", "status", "keys"),
    [
        ("question", {"question_id": 3}, "active", "arc"),
        ("dispute", {"question_id": 3}, "active", "arc"),
        ("scope", {"question_id": 3, "request_id": 1}, "active", "src"),
        ("review", {"commit": "abc"}, "done", "yn"),
        ("budget", {"question_id": 3}, "queued", "brc"),
        ("failed", {}, "failed", "r"),
        ("stuck_claim", {"claim_id": 1}, "active", "rc"),
        ("landing", {}, "done", ""),
    ],
)
def test_the_keys_that_apply(kind: str, members: dict[str, Any], status: str, keys: str) -> None:
    assert "".join(target(item(kind, **members), status=status).keys()) == keys


def test_a_review_is_decided_about_the_commit_that_was_shown() -> None:
    action = actions.approve(target(item("review", commit="abc")))
    assert (action.operation, action.sender) == ("approve", "operator")
    assert action.members["commit"] == "abc"
    rejected = actions.reject(target(item("review", commit="abc")), "no")
    assert (rejected.members["reason"], rejected.members["bead_id"]) == ("no", "t")


@pytest.mark.parametrize("items", [(), (item("question", question_id=2),), (item("review"),)])
def test_a_commit_that_was_not_shown_is_not_approved(items: tuple[Item, ...]) -> None:
    """The inbox has at most 200 items; the card of a task says that it is in review anyway."""
    card = BoardCard.of({"bead_id": "t", "status": "done", "column": "needs_you", "review": "open"})
    in_review = Selection("s", "t", card, items)
    assert "y" in in_review.keys()  # noqa: SIM118 - a method of its own
    with pytest.raises(actions.CommitNotShown, match="of t is not in the inbox") as refusal:
        actions.approve(in_review)
    assert "shiftboss task show t --swarm s" in str(refusal.value.hint)


def test_the_question_that_wants_words_is_answered() -> None:
    asked = target(item("scope", question_id=1, request_id=1), item("question", question_id=2))
    assert actions.answer(asked, "yes").members == {"question_id": 2, "answer": "yes"}


def test_a_stuck_claim_is_retried_and_not_its_task() -> None:
    assert actions.retry(target(item("stuck_claim"))).operation == "retry_claim"
    assert actions.retry(target(item("failed"), status="failed")).operation == "retry_task"


def test_raising_one_limit_keeps_the_other() -> None:
    command = "shiftboss budget set --swarm s --task t --tokens 6000 --dollars 2.5"
    used_up = item("budget", command=command, budget={"unit": "tokens"})
    assert actions.suggested_limits(command) == {"tokens": 6000, "dollars": 2.5}
    members = actions.raise_budget(used_up, 9000).members
    assert members == {"bead_id": "t", "tokens": 9000, "dollars": 2.5}


def test_an_item_of_another_swarm_is_decided_there() -> None:
    model = Model(swarm_id="mine")
    asked = item("question", question_id=1)
    model.inbox.replace([asked, item("review", bead_id="u", commit="c")], 2)
    chosen = model.target_of(asked)
    assert (chosen.swarm_id, chosen.card, list(chosen.items)) == ("s", None, [asked])
    assert model.target("t").items == []


def test_the_selection_of_the_inbox_survives_what_comes_and_goes() -> None:
    inbox, first, second = InboxRows(), item("question", question_id=1), item("failed", bead_id="u")
    inbox.replace([first, second], 2)
    assert inbox.row_of(second.key) == 1
    inbox.replace([second], 1)
    assert (inbox.row_of(second.key), inbox.row_of(first.key)) == (0, None)
    line = "".join(segment.text for segment in item_segments(item("x", text="\x1b[2J"), 0, 80))
    assert line.isprintable()


def test_the_newest_swarm_with_work_is_watched() -> None:
    def swarm(name: str, status: str, total: int) -> dict[str, Any]:
        bus = {"total": total}
        return {"swarm_id": name, "status": status, "bus": bus, "workers_registered": 0}

    empty, ended, running = (
        swarm("e", "waiting", 0),
        swarm("c", "complete", 2),
        swarm("r", "running", 1),
    )
    assert newest_with_work([ended, running]) == "r"
    assert newest_with_work([swarm("n", "created", 0), ended]) == "c"
    assert newest_with_work([empty]) == "e"
    assert newest_with_work([]) is None
