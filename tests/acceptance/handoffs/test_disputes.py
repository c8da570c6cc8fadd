"""A worker disputes its contract over HTTP, MCP, the command line and the worker library."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from shiftboss import BusWorker
from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.cli.handoff_commands import CRITERION, HONEST, Handoffs
from tests.acceptance.mcp.mcp_clients import connected
from tests.commands import Done, shiftboss
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.requirement("OWN-15")

REASON = "the specification says secret, not token"
DISPUTE = {"bead_id": "t-1", "kind": "wrong", "reason": REASON}


@pytest.fixture
def handoffs(shared_server: RunningServer, bus: InSwarm, tmp_path: Path) -> Handoffs:
    return Handoffs(shared_server, bus, Repo(tmp_path / "repo"))


@pytest.fixture
def held(handoffs: Handoffs) -> Handoffs:
    """A worker w holds t-1, which has a strategy of its own: all swarms share their records."""
    handoffs.spawn(more=("--strategy", f"by-{uuid4().hex}"))
    ask(handoffs.bus, "register_worker", name="w")
    ask(handoffs.bus, "submit_task", bead_id="t-1")
    ask(handoffs.bus, "poll_task", name="w", timeout_ms=0)
    ask(handoffs.bus, "ack_task", name="w", bead_id="t-1")
    return handoffs


def follow(handoffs: Handoffs, command: str, **variables: str) -> Done:
    """Run a command as it is printed, as the operator."""
    program, *arguments = shlex.split(command)
    done = shiftboss(
        *arguments,
        url=handoffs.url,
        folder=handoffs.repo.path,
        SHIFTBOSS_OPERATOR_TOKEN=handoffs.operator_token,
        **variables,
    )
    assert (program, done.code, done.err) == ("shiftboss", 0, ""), done
    return done


def commands(question: str) -> list[str]:
    return question.split("`")[1::2]


def the_reason(handoffs: Handoffs) -> dict[str, Any]:
    (reason,) = handoffs.json("why", "t-1")["reasons"]
    return dict(reason)


def test_a_dispute_over_http_counts_once_per_key_and_names_what_is_missing(held: Handoffs) -> None:
    key = str(uuid4())
    first = held.bus.post("/bus/dispute_contract", DISPUTE, key)
    assert first.status_code == 200, first.text
    assert first.json()["status"] == "blocked"
    assert held.bus.post("/bus/dispute_contract", DISPUTE, key).json() == first.json()
    (question,) = ask(held.bus, "list_questions")["questions"]
    assert question["dispute"] == {"kind": "wrong", "reason": REASON}
    for wrong, field in (
        (DISPUTE | {"kind": "unfair"}, "kind"),
        (DISPUTE | {"reason": " "}, "reason"),
        (DISPUTE | {"evidence": "x" * 10_001}, "evidence"),
        (DISPUTE | {"commit": "HEAD"}, "commit"),
    ):
        refused = held.bus.post("/bus/dispute_contract", wrong)
        assert (refused.status_code, refused.json()["field"]) == (422, field)


def test_the_command_disputes_and_every_command_of_the_question_works_as_printed(
    held: Handoffs,
) -> None:
    log = held.repo.path.parent / "build.log"
    log.write_text("x" * 20_000 + "\nAssertionError: token")
    words = ("dispute", "t-1", "--kind", "wrong", "--reason", REASON)
    both = held.run(*words, "--evidence", "it", "--evidence-file", str(log))
    assert both == (1, "", "give --evidence or --evidence-file, not both\n")
    done = held.run(*words, "--evidence-file", str(log), "--commit", held.repo.base)
    assert (done.code, done.err) == (0, ""), done
    assert done.out.startswith("t-1 waits for coordinator: question 1.")
    (question,) = held.json("questions", "list")["questions"]
    assert len(question["dispute"]["evidence"]) == 10_000
    assert question["question"].endswith("AssertionError: token")
    reason = the_reason(held)
    assert reason["text"] == f"w disputes its contract: it is wrong: {REASON}"
    amend, insist, cancel = commands(question["question"])
    assert [reason["command"], *reason["also"]] == [amend, insist, cancel]

    assert follow(held, amend, EDITOR="true").out == "nothing was changed\n"
    changed = follow(held, amend, EDITOR="sed -i s/token/secret/")
    assert changed.out == "t-1 now has contract version 2\n"
    contract = held.json("handoff", "show", "t-1")["handoff"]["contract"]
    assert contract["success_criteria"] == [CRITERION.replace("token", "secret")]
    answers = ask(held.bus, "poll_task", name="w", timeout_ms=0)["answers"]
    assert answers[0]["answer"] == "The contract has version 2 now: the operator has changed it"
    assert ask(held.bus, "show_task", bead_id="t-1")["state"] == "executing"

    assert held.run(*words).code == 0
    (_, insist, _) = commands(held.json("questions", "list")["questions"][0]["question"])
    assert follow(held, insist).out == "w gets the answer and continues with t-1\n"
    again = held.run(*words)
    assert (again.code, again.out) == (1, "")
    assert "question 2 has an answer" in again.err
    assert held.run(*words[:-1], "No token is kept anywhere").code == 0
    (_, _, cancel) = commands(held.json("questions", "list")["questions"][0]["question"])
    follow(held, cancel)
    assert ask(held.bus, "show_task", bead_id="t-1")["status"] == "cancelled"

    strategy = held.json("handoff", "show", "t-1")["strategy"]
    listed = held.run("strategy", "list").out.splitlines()
    row = next(line.split() for line in listed if line.startswith(strategy))
    assert row[1:6] == ["0", "0.0", "0.0", "3", "50%"]


def test_a_contract_is_amended_by_options_and_only_by_the_operator(held: Handoffs) -> None:
    held.run("dispute", "t-1", "--kind", "impossible", "--reason", REASON)
    amend = ("handoff", "amend", "t-1", "--criterion", "Command passes: true")
    assert held.run(*amend).code == 1
    assert held.bus.post("/operator/amend_handoff", DISPUTE).status_code == 403
    operator = {"SHIFTBOSS_OPERATOR_TOKEN": held.operator_token}
    bare = held.run("handoff", "amend", "t-1", EDITOR="", VISUAL="", **operator)
    assert (bare.code, bare.out) == (1, "")
    assert bare.err.startswith("say what to change: there is no terminal"), bare
    done = held.operate(*amend, "--reason", "agreed")
    assert done == (0, "t-1 now has contract version 2\n", "")
    held.repo.commit("work", HONEST)
    claimed = held.run("complete", "t-1", "--name", "w")
    assert (claimed.code, claimed.err) == (0, ""), claimed
    task = ask(held.bus, "show_task", bead_id="t-1")
    assert (task["status"], task["failures"], task["attempt"]) == ("done", 0, 1)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("s/grep -q/grep |/", "success_criteria.0"),
        ("s/^files:/files: [/", "this is not YAML"),
    ],
)
def test_what_the_operator_wrote_is_kept_if_it_cannot_be_used(
    held: Handoffs, script: str, complaint: str
) -> None:
    editor = f"sed -i {shlex.quote(script)}"
    variables = {"SHIFTBOSS_OPERATOR_TOKEN": held.operator_token, "EDITOR": editor}
    done = held.run("handoff", "amend", "t-1", **variables)
    assert (done.code, done.out) == (1, "")
    note, _, refusal = done.err.partition("\n")
    assert complaint in refusal, done
    kept = Path(note.removeprefix("what you wrote is kept in "))
    written = script.split("/")[2]
    assert written in kept.read_text()
    assert held.json("handoff", "show", "t-1")["version"] == 1
    kept.unlink()
    kept.parent.rmdir()


@pytest.mark.parametrize("editor", ["false", "no-such-editor", "'"])
def test_an_editor_that_fails_leaves_nothing_behind(held: Handoffs, editor: str) -> None:
    variables = {"SHIFTBOSS_OPERATOR_TOKEN": held.operator_token, "EDITOR": editor}
    done = held.run("handoff", "amend", "t-1", **variables)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("the editor failed: "), "no file is named: it had nothing new"


@pytest.mark.anyio
async def test_an_agent_disputes_with_the_tool(held: Handoffs) -> None:
    async with connected(held.url, "2026-07-28") as tools:
        members = DISPUTE | {"swarm_id": held.swarm}
        disputed = await tools.call("dispute_contract", **members)
        assert (disputed["question_id"], disputed["status"]) == (1, "blocked")
        assert await tools.call("dispute_contract", **members) == disputed
    assert the_reason(held)["kind"] == "dispute"


@pytest.mark.anyio
async def test_the_worker_library_waits_for_the_answer_and_has_the_new_contract(
    handoffs: Handoffs,
) -> None:
    await asyncio.to_thread(handoffs.spawn, more=("--submit",))
    async with BusWorker("w", server=handoffs.url, swarm_id=handoffs.swarm) as worker:
        async for task in worker.tasks():
            disputing = asyncio.create_task(task.dispute("wrong", REASON, evidence="line 3"))
            await eventually(
                lambda: bool(ask(handoffs.bus, "list_questions")["questions"]), "it is disputed"
            )
            amend = ("handoff", "amend", "t-1", "--criterion", "It works", "--reason", "agreed")
            assert (await asyncio.to_thread(handoffs.operate, *amend)).code == 0
            assert await disputing == "The contract has version 2 now: agreed"
            assert task.handoff is not None
            assert task.handoff["contract"]["success_criteria"] == ["It works"]
            await task.failed("enough")
            break
