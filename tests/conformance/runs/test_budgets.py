"""Usage and budgets: reliable totals, and a breaker that trips once."""

from __future__ import annotations

import pytest

from shiftboss.errors import Forbidden, NotHeld, StaleEpoch, UnknownTask
from shiftboss.protocol.fields import INTEGER_MAX
from shiftboss.protocol.runs import DOLLARS_MAX, TOKENS_MAX
from tests.conformance.bus.bus_fixtures import SWARM, BusFixture, open_bus
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.conformance.runs.run_fixtures import RunFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-07")]


@pytest.fixture
async def plan(handoffs: HandoffFixture) -> RunFixture:
    """Two tasks: `a` is at work, `b` waits for a worker."""
    await handoffs.register("w")
    await handoffs.add_and_submit("a", "b")
    await handoffs.start("w", "a")
    return RunFixture(handoffs)


async def test_a_process_replaces_its_earlier_usage_report(plan: RunFixture) -> None:
    await plan.uses("a", "w", 1, input_tokens=100, output_tokens=10, cached_tokens=5, dollars=0.1)
    told = await plan.uses("a", "w", 1, input_tokens=300, output_tokens=30, dollars=0.3)
    assert (told.task.tokens, told.task.cached_tokens, told.task.dollars) == (330, 5, 0.3)
    late = await plan.uses("a", "w", 1, input_tokens=200, output_tokens=20, dollars=0.2)
    assert late.task == told.task
    second = await plan.uses("a", "w", 1, process=2, input_tokens=50)
    assert (second.task.tokens, second.task.dollars, second.task.unpriced_tokens) == (380, 0.3, 50)
    priced = await plan.uses("a", "w", 1, process=2, input_tokens=50, dollars=0.05)
    assert (priced.task.dollars, priced.task.unpriced_tokens) == (0.35, 0)
    assert priced.swarm == priced.task
    assert priced.over is None


async def test_totals_stop_at_what_can_be_stored(
    plan: RunFixture, handoffs: HandoffFixture
) -> None:
    """An agent that reports fortunes must not keep others from reporting what they have spent."""
    lie = {"input_tokens": TOKENS_MAX, "output_tokens": TOKENS_MAX, "dollars": DOLLARS_MAX}
    for process in range(1, 95):
        told = await plan.uses("a", "w", 1, process=process, **lie)
    assert told.swarm.input_tokens == told.swarm.output_tokens == INTEGER_MAX
    assert told.swarm.dollars == INTEGER_MAX / 1_000_000
    await handoffs.register("x")
    await handoffs.start("x", "b")
    honest = await plan.uses("b", "x", 1, input_tokens=7, dollars=0.5)
    assert (honest.task.tokens, honest.task.dollars) == (7, 0.5)
    assert honest.swarm == told.swarm


async def test_usage_of_an_ended_attempt_still_counts(
    plan: RunFixture, handoffs: HandoffFixture
) -> None:
    await handoffs.failed("a")
    await handoffs.register("x")
    told = await plan.uses("a", "w", 1, output_tokens=7)
    assert told.task.tokens == 7
    with pytest.raises(StaleEpoch):
        await plan.uses("a", "w", 2, output_tokens=7)
    with pytest.raises(UnknownTask):
        await plan.uses("z", "w", 1, output_tokens=7)


async def test_only_the_holder_can_report_usage(plan: RunFixture) -> None:
    with pytest.raises(NotHeld):
        await plan.uses("a", "other", 1, output_tokens=7)
    assert (await plan.usage()).tasks == []


async def test_a_task_over_its_budget_is_reported_once_and_not_dispatched(
    plan: RunFixture, handoffs: HandoffFixture
) -> None:
    assert (await plan.budget("a", tokens=100)).over is None
    assert (await plan.uses("a", "w", 1, input_tokens=99)).over is None
    assert (await handoffs.beat("w")).paused is None
    for tokens in (100, 150):
        over = (await plan.uses("a", "w", 1, input_tokens=tokens)).over
        assert over is not None
        assert (over.scope, over.unit, over.limit, over.spent) == ("task", "tokens", 100, tokens)
    assert "the budget of a is used up: 100 of 100" in str((await handoffs.beat("w")).paused)
    (event,) = await handoffs.events("budget_exceeded")
    assert (event["bead_id"], event["scope"], event["spent"]) == ("a", "task", 100)
    (question,) = await handoffs.questions()
    assert "shiftboss budget set --swarm default --task a --tokens 200" in question.question

    # The other task is not affected; this one waits, whoever submits it.
    await handoffs.failed("a")
    assert [question.bead_id for question in await handoffs.questions()] == ["a"]
    assert (await handoffs.given("w")).bead_id == "b"
    await handoffs.register("x")
    assert (await handoffs.submit("a")).dispatched is False
    assert (await handoffs.look("x")).task is None


async def test_a_larger_budget_releases_the_task(
    plan: RunFixture, handoffs: HandoffFixture
) -> None:
    await plan.budget("a", dollars=0.5)
    await plan.uses("a", "w", 1, dollars=0.75, input_tokens=1)
    await handoffs.failed("a")
    assert (await handoffs.given("w")).bead_id == "b"
    await handoffs.register("x")
    await handoffs.submit("a")
    with pytest.raises(Forbidden) as refused:
        await plan.budget("a", dollars=2)
    assert refused.value.field == "dollars"
    with pytest.raises(Forbidden):
        await plan.budget("a", tokens=10)  # without its dollars
    still = await plan.raised("a", dollars=0.6)
    assert still.over is not None
    assert (await handoffs.look("x")).task is None
    assert (await plan.raised("a", dollars=2)).over is None
    assert (await handoffs.given("x")).bead_id == "a"
    assert await handoffs.questions() == []
    assert await plan.holds() == []
    again = await plan.raised("a", dollars=2)
    assert again.changed is False

    # And the breaker can trip again.
    await plan.uses("a", "w", 1, dollars=3, input_tokens=1)
    assert len(await handoffs.events("budget_exceeded")) == 2
    assert len(await handoffs.questions()) == 1


async def test_an_exhausted_swarm_budget_holds_every_task(
    plan: RunFixture, handoffs: HandoffFixture
) -> None:
    await plan.budget(tokens=1000)
    await plan.uses("a", "w", 1, input_tokens=400)
    over = (await plan.uses("a", "w", 1, process=2, input_tokens=600)).over
    assert over is not None
    assert (over.scope, over.limit, over.spent) == ("swarm", 1000, 1000)
    assert "the swarm" in str((await handoffs.beat("w")).paused)
    await handoffs.done("a")
    assert (await handoffs.look("w")).task is None
    (held,) = await plan.holds()
    assert (held.kind, held.bead_id, held.until) == ("budget", None, None)
    assert (await handoffs.coordinator.swarms.status(SWARM)).holds == [held]
    # The end of a pause does not lift it.
    await plan.pause(5)
    await plan.pass_seconds(6)
    assert (await handoffs.look("w")).task is None
    await plan.raised(tokens=1001)
    assert (await handoffs.given("w")).bead_id == "b"


async def test_anyone_can_lower_a_budget(plan: RunFixture, handoffs: HandoffFixture) -> None:
    await plan.uses("a", "w", 1, input_tokens=500)
    await plan.budget("a", tokens=1000)
    assert (await plan.budget("a", tokens=1000)).changed is False
    assert (await plan.budget("a", tokens=900, dollars=1)).over is None
    over = (await plan.budget("a", tokens=400, dollars=1)).over
    assert over is not None
    assert over.spent == 500
    # The caller already knows.
    assert len(await handoffs.events("budget_exceeded")) == 1
    assert await handoffs.questions() == []
    await plan.raised("a")
    assert await plan.holds() == []


async def test_rerunning_a_plan_does_not_undo_the_operators_budget(
    plan: RunFixture,
) -> None:
    await plan.budget("a", tokens=100)
    await plan.uses("a", "w", 1, input_tokens=500)
    await plan.raised("a", tokens=1000)
    again = await plan.budget("a", tokens=100)
    assert (again.changed, again.budget.tokens, again.over) == (False, 1000, None)
    with pytest.raises(Forbidden):
        await plan.budget("a", tokens=1001)
    assert (await plan.raised("a", tokens=400)).over is not None


async def test_usage_is_listed_page_by_page(plan: RunFixture, handoffs: HandoffFixture) -> None:
    await handoffs.done("a")
    await handoffs.start("w", "b")
    await plan.uses("a", "w", 1, input_tokens=1, dollars=0.01)
    await plan.uses("b", "w", 1, input_tokens=2, dollars=0.02)
    await plan.budget("b", tokens=2)
    first = await plan.usage(limit=1)
    assert ([task.bead_id for task in first.tasks], first.next_after) == (["a"], "a")
    (last,) = (await plan.usage(limit=1, after="a")).tasks
    assert last.budget is not None
    assert last.over is not None
    assert (last.bead_id, last.budget.tokens, last.over.spent) == ("b", 2, 2)
    assert (first.swarm.tokens, first.swarm.dollars, first.budget) == (3, 0.03, None)


async def test_usage_and_budgets_survive_a_restart(store_address: str) -> None:
    async with open_bus(store_address) as bus:
        await bus.register("w")
        await bus.add_and_submit("a", "b")
        await bus.start("w", "a")
        plan = RunFixture(bus)
        await plan.budget(tokens=10)
        await plan.uses("a", "w", 1, input_tokens=10)
    async with open_bus(store_address) as bus:
        plan = RunFixture(bus)
        assert (await plan.usage()).swarm.tokens == 10
        assert (await _waits(bus)) is True
        await plan.raised(tokens=20)
        assert (await bus.given("w")).bead_id == "b"


async def _waits(bus: BusFixture) -> bool:
    await bus.done("a")
    return (await bus.look("w")).task is None


async def test_nothing_that_was_spent_is_taken_back(plan: RunFixture) -> None:
    """An agent has the token of its task: without this, it could undo what the run has reported,
    or report so many tokens that no later report of the run counts."""
    spent = {"input_tokens": 60, "output_tokens": 40, "cached_tokens": 7, "dollars": 40}
    await plan.uses("a", "w", 1, **spent)
    await plan.uses("a", "w", 1, input_tokens=60, output_tokens=40, dollars=0)
    await plan.uses("a", "w", 1, input_tokens=60, output_tokens=40)
    lied = await plan.uses("a", "w", 1, input_tokens=200, output_tokens=0, dollars=0)
    assert (lied.task.dollars, lied.task.unpriced_tokens) == (40, 0)
    told = await plan.uses("a", "w", 1, input_tokens=70, output_tokens=50, dollars=50)
    assert (told.task.input_tokens, told.task.output_tokens) == (200, 50)
    assert (told.task.cached_tokens, told.task.dollars) == (7, 50)
    assert told.swarm == told.task
