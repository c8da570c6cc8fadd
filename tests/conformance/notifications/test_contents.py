"""What each event says to a person, on both stores, with the command that helps."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from shiftboss.coordinator.notifications.contents import notification_of
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import DisputeContractRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.packets import CompleteRequest, ErrorRequest, RegisterRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.claims.claims import REFUSALS_MAX
from shiftboss.rules.notifications.kinds import NOTIFIED
from tests.conformance.bus.bus_fixtures import BusFixture
from tests.conformance.contract.contract_fixtures import ContractFixture, runs
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.conformance.runs.run_fixtures import RunFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-20")]


class Said(NamedTuple):
    kind: str
    title: str
    text: str
    command: str | None


async def contents_in(bus: BusFixture, swarm_id: str = "default") -> list[Said]:
    """What all events of the swarm say now, in their order."""
    kinds = {kind.value for kind in NOTIFIED}
    events = await bus.coordinator.swarms.events_after(swarm_id, 0, 1000)
    found = []
    for event in events:
        if event.kind not in kinds:
            continue
        number = event.event_id
        made = await bus.coordinator.store.read(
            lambda tx, number=number: notification_of(tx, swarm_id, number)  # type: ignore[misc]
        )
        if made is not None:
            content = made.content
            found.append(Said(made.kind, content.title, content.text, content.command))
    return found


async def test_a_question_until_it_is_answered(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    await bus.start("w", "t")
    await bus.say(
        MessageType.BLOCKED, "w", payload={"question": "which\x1b[31m \u202edb? token=abc"}
    )
    (said,) = await contents_in(bus)
    assert said.kind == "question"
    assert said.title == "Question: t in default"
    assert said.text == "w asks question 1: which\\x1b[31m \\u202edb? token=[hidden]"
    assert said.command == "shiftboss questions answer 1 'your answer' --swarm default"
    await bus.answer(1, "this one")
    assert await contents_in(bus) == []


async def test_a_scope_request_and_a_dispute_are_one_notification_each(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "src/t.py", files_readonly=["docs/**"])
    await handoffs.ask_for("t", "docs/a.md", name="w")
    (asked,) = await contents_in(handoffs)
    assert (asked.kind, asked.command) == (
        "scope_request",
        "shiftboss scope grant 1 --swarm default",
    )
    handoffs.clock.now_ms += 1
    await handoffs.given_out("u", "v")
    request = DisputeContractRequest(bead_id="u", kind="wrong", reason="the test is wrong")
    await handoffs.handoff_service.dispute_contract(request)
    _, disputed = await contents_in(handoffs)
    assert disputed.kind == "dispute"
    assert "disputes its contract" in disputed.text


async def test_verdicts_and_the_escalation_of_the_last_refusal(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    for number in range(REFUSALS_MAX):
        handoffs.clock.now_ms += 1
        await handoffs.claim("t", name="w", summary=f"attempt {number}")
        await handoffs.refuse()
    sent = await contents_in(handoffs)
    assert [each.kind for each in sent] == ["verdict"] * REFUSALS_MAX + ["escalation"]
    assert sent[0].text == "claim 1 is refused by scope"
    assert sent[0].command == "shiftboss why t --swarm default"
    assert f"refused {REFUSALS_MAX} times" in sent[-1].text


async def test_a_claim_that_nobody_can_verify(handoffs: HandoffFixture) -> None:
    await handoffs.take("blind")
    await handoffs.given_out("t", "w")
    await handoffs.claim("t", name="w")
    await handoffs.unable(await handoffs.taken("blind"), "blind")
    (said,) = await contents_in(handoffs)
    assert said.kind == "escalation"
    assert said.command == "shiftboss claim retry t --swarm default"
    handoffs.clock.now_ms += 1
    await handoffs.retry_claim("t")
    assert await contents_in(handoffs) == []


async def test_a_review(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", branch="main", target="main", review="required")
    await handoffs.claim("t", name="w", commit="c" * 40)
    await handoffs.accept()
    sent = await contents_in(handoffs)
    assert [each.kind for each in sent] == ["verdict", "review"]
    assert sent[1].command == "shiftboss approve t --swarm default"


async def test_a_budget_of_a_task_and_of_the_swarm(handoffs: HandoffFixture) -> None:
    await handoffs.register("w")
    await handoffs.add_and_submit("a")
    await handoffs.start("w", "a")
    plan = RunFixture(handoffs)
    await plan.budget("a", tokens=100)
    await plan.budget(tokens=1000)
    await plan.uses("a", "w", 1, input_tokens=150)
    (task,) = await contents_in(handoffs)
    assert (task.kind, task.title) == ("budget", "Budget used up: a in default")
    assert task.command == "shiftboss budget set --swarm default --task a --tokens 300"
    handoffs.clock.now_ms += 1
    await plan.uses("a", "w", 1, input_tokens=1500)
    swarm = (await contents_in(handoffs))[-1]
    assert (swarm.kind, swarm.title) == ("budget", "Budget used up: default")
    assert swarm.command == "shiftboss budget set --swarm default --tokens 3000"


async def test_a_halt_names_how_to_lift_it(contract: ContractFixture) -> None:
    await contract.works_on("alphavm")
    contract.clock.now_ms += 1
    await contract.fails("alphavm", "in abc", error_type="api_key_exposed_in_commit")
    (said,) = await contents_in(contract)
    assert (said.kind, said.command) == ("halt", "shiftboss resume 1 --reason 'it is fixed'")


async def test_a_permission_that_an_agent_lacks(contract: ContractFixture) -> None:
    await contract.works_on("sdk", "w")
    contract.clock.now_ms += 1
    await contract.says("sdk", "BLOCKED_PERMISSION: Bash - Permission to use Bash has been denied")
    (said,) = await contents_in(contract)
    assert (said.kind, said.title) == ("permission", "Permission denied: sdk in default")
    assert "Bash" in said.text


async def test_red_ci(contract: ContractFixture) -> None:
    await contract.works_on("sdk", "w")
    contract.clock.now_ms += 1
    sha = await contract.pushes("sdk")
    await contract.ci_says(runs(sha, build="failure"))
    (said,) = await contents_in(contract)
    assert said.kind == "ci_failed"
    assert said.command == "shiftboss why sdk --swarm default"


async def test_a_timeout_that_nobody_reacts_to(contract: ContractFixture) -> None:
    await contract.works_on("sdk", "w")
    await contract.says("sdk", "BLOCKED: which branch?")
    await contract.pass_minutes(600)
    sent = await contents_in(contract)
    escalated = await contract.events(EventKind.TIMEOUT_ESCALATED.value)
    assert [each.kind for each in sent] == ["question", *["escalation"] * len(escalated)]
    assert escalated
    assert sent[-1].command == "shiftboss why sdk --swarm default"


async def test_a_task_that_failed_for_good(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    for _ in range(10):
        if (await bus.show("t")).status == "failed":
            break
        if (await bus.look("w")).task is not None:
            await bus.ack("w", "t")
        await bus.failed("t", "no disk")
        bus.clock.now_ms += 1
    (said,) = await contents_in(bus)
    assert (said.kind, said.command) == ("task_failed", "shiftboss task retry t --swarm default")
    await bus.retry("t")
    assert await contents_in(bus) == []


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_end_of_a_swarm_if_its_creator_wants_it(bus: BusFixture, wanted: bool) -> None:
    swarms = bus.coordinator.swarms
    await swarms.create_swarm(CreateSwarmRequest(swarm_id="s", notify_on_complete=wanted))
    packet = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
    await swarms.register("s", packet)
    failure = ErrorRequest(
        packet_id=1, task_id="step", error_type="E", message="broken", recoverable=True
    )
    await swarms.error("s", failure)
    done = CompleteRequest(
        packet_id=1, final_commit="abcdef0", tests_passed=True, review_passed=True
    )
    assert (await swarms.complete("s", done)).swarm_complete
    sent = await contents_in(bus, "s")
    expected = Said(
        "run_finished", "Run finished: s", "all packets are complete", "shiftboss status s"
    )
    assert sent == ([expected] if wanted else [])


async def test_a_packet_that_failed(bus: BusFixture) -> None:
    swarms = bus.coordinator.swarms
    await swarms.create_swarm(CreateSwarmRequest(swarm_id="s"))
    packet = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
    await swarms.register("s", packet)
    failure = ErrorRequest(
        packet_id=1, task_id="step", error_type="E", message="broken", recoverable=False
    )
    await swarms.error("s", failure)
    (said,) = await contents_in(bus, "s")
    assert (said.kind, said.text) == ("task_failed", "packet 1: broken")
