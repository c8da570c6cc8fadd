"""The prompts of agents: short, whatever a task contains."""

from __future__ import annotations

import pytest

from shiftboss.rules.prompts.agent_prompts import (
    FIX_TOKENS_MAX,
    PROMPT_TOKENS_MAX,
    RunTask,
    fix_prompt,
    run_prompt,
)
from shiftboss.rules.prompts.token_estimate import estimate_tokens

TASK = RunTask(
    swarm_id="shop",
    bead_id="login",
    worker="shop-1",
    epoch=2,
    branch="shiftboss/login",
    title="Add a login",
    description="Users give a name.\n\nNo passwords yet.",
    files=["src/login.py", "tests/test_login.py"],
    criteria=["Tests pass: python -m unittest"],
)


def test_the_first_prompt_says_what_to_do_and_how_to_finish() -> None:
    text = run_prompt(TASK)
    for words in (
        "TASK login: Add a login",
        "FILE: src/login.py",
        "MUST HOLD: Tests pass: python -m unittest",
        "No passwords yet.",
        'swarm_complete(swarm_id="shop", bead_id="login", name="shop-1", epoch=2',
        "request_scope",
        "show_handoff",
    ):
        assert words in text


def test_the_prompts_name_the_tests_whose_expectations_may_change() -> None:
    task = TASK._replace(expectations_change=["tests/test_login.py"])
    for text in (run_prompt(task), fix_prompt(task, ["base_tests: no"])):
        assert "EXPECTATIONS MAY CHANGE: tests/test_login.py\n" in text
    assert "EXPECTATIONS" not in run_prompt(TASK)


def test_the_prompt_of_an_agent_without_our_tools_mentions_none() -> None:
    text = run_prompt(TASK._replace(speaks=False, handoff_file="/s/handoff.json"))
    assert "swarm_complete" not in text
    assert "request_scope" not in text
    assert "/s/handoff.json" in text


@pytest.mark.requirement("OWN-15")
def test_every_prompt_names_the_way_out() -> None:
    for task in (TASK, TASK._replace(claims=False), TASK._replace(files=[])):
        for text in (run_prompt(task), fix_prompt(task, ["scope: no"])):
            assert "Wrong or impossible? dispute_contract: no failure." in text
    silent = run_prompt(TASK._replace(speaks=False))
    assert "`shiftboss dispute login --help` says how: no failure." in silent


def test_if_ci_comes_first_the_agent_commits_and_exits() -> None:
    text = run_prompt(TASK._replace(claims=False))
    assert "swarm_complete" not in text
    assert "request_scope" in text


@pytest.mark.parametrize("claims", [True, False])
def test_a_task_that_only_reads_is_not_asked_to_commit(claims: bool) -> None:
    text = run_prompt(TASK._replace(files=[], claims=claims))
    assert "Change and commit nothing. Say what you found in" in text
    assert "Commit, then" not in text
    assert "Commit and exit" not in text
    assert "FILE" not in text
    assert ("When done: swarm_complete(" in text) == claims
    assert estimate_tokens(text.split("TASK")[0]) <= 100


@pytest.mark.requirement("CC-08")
@pytest.mark.parametrize(
    "task",
    [
        TASK._replace(description="many words\n" * 2000),
        TASK._replace(files=[f"src/part_{number}/**" for number in range(500)]),
        TASK._replace(title="a title " * 60),
        TASK._replace(checkpoint={"decisions": ["because " * 500]}),
    ],
)
def test_the_first_prompt_stays_within_its_token_limit(task: RunTask) -> None:
    text = run_prompt(task)
    assert estimate_tokens(text) <= PROMPT_TOKENS_MAX
    assert "swarm_complete" in text


@pytest.mark.requirement("CC-08")
def test_the_fixed_part_of_the_prompt_has_at_most_100_tokens() -> None:
    bare = TASK._replace(title="", description="", files=[], criteria=[])
    assert estimate_tokens(run_prompt(bare).split("TASK")[0]) <= 100


def test_omitted_lines_are_counted() -> None:
    text = run_prompt(TASK._replace(description="one two three\n" * 500))
    assert text.rstrip().endswith("more lines: see the handoff)")


def test_a_successor_is_told_where_to_continue() -> None:
    text = run_prompt(TASK._replace(checkpoint={"current_step": "tests are left"}))
    assert "CONTINUE" in text
    assert "tests are left" in text


def test_the_prompt_after_a_refusal_gives_its_reasons() -> None:
    text = fix_prompt(TASK, ["scope: src/other.py is not yours (take it out)", "x" * 50])
    assert "src/other.py is not yours" in text
    assert "TASK login" in text
    assert estimate_tokens(fix_prompt(TASK, ["word " * 9000] * 3)) <= FIX_TOKENS_MAX


@pytest.mark.requirement("OWN-12")
def test_the_answer_of_a_person_comes_first_and_in_plain_words() -> None:
    task = TASK._replace(checkpoint={"instructions": "blue,\nnot red", "current_step": "half"})
    text = run_prompt(task)
    assert "A PERSON SAYS: blue, not red\n" in text
    assert text.index("A PERSON SAYS") < text.index("CONTINUE from this checkpoint")
    only_answer = run_prompt(TASK._replace(checkpoint={"instructions": "blue"}))
    assert "CONTINUE" not in only_answer


@pytest.mark.requirement("OWN-12")
def test_after_a_rejection_the_prompt_says_why_and_that_the_work_starts_over() -> None:
    checkpoint = {"instructions": "use another name", "start_over": True, "commits": ["a" * 40]}
    text = run_prompt(TASK._replace(checkpoint=checkpoint))
    assert "A PERSON SAYS: use another name\nSTART OVER" in text
    assert "CONTINUE" not in text
    assert "start_over" not in text
