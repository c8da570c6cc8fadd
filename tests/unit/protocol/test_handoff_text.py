"""The handoff as a worker reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from shiftboss.protocol.handoffs import Context, Contract, Escalation, WorkerHandoff, handoff_hash
from shiftboss.rules.prompts.handoff_text import (
    NEXT_CHARACTERS_MAX,
    OTHERS_CHARACTERS_MAX,
    FinishedTask,
    render_handoff,
    what_comes_next,
    what_others_did,
)

BASE = "a" * 40
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def handoff(files: list[str], prose: str = "Add login") -> WorkerHandoff:
    return WorkerHandoff(
        contract=Contract(
            task_id="bd-123.2",
            files_owned=files,
            files_readonly=["src/types/user.ts"],
            dependencies_completed=["bd-123.1"],
            success_criteria=["Tests pass: bun test src/auth/service.test.ts"],
        ),
        context=Context(
            epic_summary=prose, your_role=prose, what_others_did=prose, what_comes_next=prose
        ),
        escalation=Escalation(),
    )


def rendered(
    given: WorkerHandoff,
    *,
    branch: str | None = "task/bd-123.2",
    repo: str = "/r",
    expectations_change: Sequence[str] = (),
) -> str:
    return render_handoff(
        given,
        version=3,
        contract_hash=handoff_hash(given),
        base_commit=BASE,
        branch=branch,
        repo=repo,
        expectations_change=expectations_change,
    )


def embedded_json(text: str) -> WorkerHandoff:
    (line,) = [line for line in text.splitlines() if line.startswith("{")]
    return WorkerHandoff.model_validate_json(line)


@pytest.mark.parametrize(
    "given",
    [
        handoff(["src/auth/service.ts"]),
        handoff([f"src/deep/folder/file{number}.py" for number in range(500)]),
        handoff(["a"], prose=LINE_ENDS.join(["word"] * 1000)),
        handoff([f"odd{LINE_ENDS}name", "braces {0} {handoff}"]),
    ],
    ids=["small", "500 files", "long prose", "odd names"],
)
def test_it_has_fewer_than_50_lines_and_loses_nothing(given: WorkerHandoff) -> None:
    text = rendered(given, branch=LINE_ENDS, repo=f"/odd{LINE_ENDS}repo")
    assert len(text.splitlines()) < 50
    assert embedded_json(text) == given


def test_the_shown_hash_is_that_of_the_json() -> None:
    given = handoff(["ünï.py"], prose="\u2028")
    text = rendered(given)
    assert handoff_hash(embedded_json(text)) in text


def test_the_json_is_compact_and_begins_with_the_contract() -> None:
    line = next(line for line in rendered(handoff(["a"])).splitlines() if line.startswith("{"))
    assert line.startswith('{"contract":{"task_id":"bd-123.2","files_owned":["a"],')
    assert line == json.dumps(json.loads(line), separators=(",", ":"))


def test_the_wrapper_says_where_to_work_and_how_to_finish() -> None:
    text = rendered(handoff(["a"]), repo="/work tree")
    for part in (
        "# Task bd-123.2, contract version 3",
        f'Work in "/work tree", branch "task/bd-123.2", on top of commit {BASE}.',
        "ack_task",
        "heartbeat",
        "request_scope(bead_id, paths, reason)",
        "swarm_complete(bead_id, commit, summary, files_touched)",
    ):
        assert part in text
    assert "any branch" in rendered(handoff(["a"]), branch=None)


def test_it_tells_how_tests_are_tested_themselves() -> None:
    text = " ".join(rendered(handoff(["a"])).split())
    for rule in (
        "Tests that you change must also pass as they were in the base",
        "Some tests are sabotaged and must fail then",
        "some of your lines are changed, which the tests must notice",
    ):
        assert rule in text


def test_it_names_the_tests_whose_expectations_change() -> None:
    given = handoff(["a"])
    text = rendered(given, expectations_change=["tests/a.py", f"odd{LINE_ENDS}name"])
    assert 'changes what these tests of the base expect: ["tests/a.py","odd' in text
    assert len(text.splitlines()) < 50
    assert embedded_json(text) == given
    assert "tests of the base expect:" not in rendered(given)


def test_the_text_of_a_packet_names_its_own_reports() -> None:
    given = handoff(["a"])
    contract = given.contract.model_copy(update={"task_id": "packet-2"})
    text = rendered(given.model_copy(update={"contract": contract}))
    for part in ("swarm_register", "swarm_progress", "swarm_packet_complete(packet_id, "):
        assert part in text
    for other in ("ack_task", "heartbeat", "swarm_complete"):
        assert other not in text
    assert len(text.splitlines()) < 50


def test_what_others_did_lists_their_summaries_commits_and_files() -> None:
    finished = [
        FinishedTask("bd-1", "Schema", "User has\n an email", "b" * 40, ["a.sql", "b.sql"]),
        FinishedTask("bd-2", "Tables", "", "c" * 40, [f"{number}" for number in range(20)]),
        FinishedTask("bd-3", "Nothing", "x", "d" * 40, []),
    ]
    assert what_others_did(finished).splitlines() == [
        f"bd-1: User has an email (commit {'b' * 12}; changed a.sql, b.sql)",
        f"bd-2: Tables (commit {'c' * 12}; changed 0, 1, 2, 3, 4, 5, 6, 7 and 12 more)",
        f"bd-3: x (commit {'d' * 12})",
    ]


def test_what_others_did_and_what_comes_next_are_limited_in_length() -> None:
    finished = [
        FinishedTask(f"bd-{number}", "t", "word " * 1000, "b" * 40, ["f" * 900] * 9)
        for number in range(50)
    ]
    text = what_others_did(finished)
    assert len(text) <= OTHERS_CHARACTERS_MAX
    assert text.endswith(" more tasks")
    waiting = [(f"bd-{number}", "Title " * 10) for number in range(100)]
    text = what_comes_next(waiting)
    assert len(text) <= NEXT_CHARACTERS_MAX
    shown = len(text.splitlines()) - 1
    assert text.splitlines()[-1] == f"and {100 - shown} more tasks"


def test_what_others_did_and_what_comes_next_may_be_empty() -> None:
    assert what_others_did([]) == what_comes_next([]) == ""
    assert what_comes_next([("bd-3", "Add routes")]) == "bd-3: Add routes"
