"""The commands of the completion contract: repos, milestones, failures, checkpoints, prompts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.bus.bus import task
from tests.acceptance.handoffs.contract_fixtures import WORKER, PolicyServer, running_policy_server
from tests.commands import imported_by
from tests.repos import Repo


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    with running_policy_server(tmp_path) as server:
        yield server


@pytest.mark.requirement("CC-05", "CC-06")
def test_repos_are_listed_by_phase_and_spawning_by_name_locks_one(
    server: PolicyServer,
) -> None:
    free = [line.split() for line in server.ok("repo", "list")]
    assert free[1:] == [["1", "core"], ["2", "app", "core"]]
    assert server.ok("repo", "can-spawn", "app") == ["work on app may start"]
    task_id = server.spawn("core")
    locked = server.ok("repo", "list")[1].split()
    assert locked[:3] == ["1", "core", task_id]
    (core, app) = server.json("repo", "list")["repos"]
    assert (core["locked_by"], core["swarm_id"], app["locked_by"]) == (task_id, "default", None)
    refused = server.run("repo", "can-spawn", "app")
    assert (refused.code, refused.out) == (1, "")
    assert "core is a dependency that is being worked on (t-core)" in refused.err
    spawned = server.run(
        *("handoff", "spawn", "t-2", "--repo", "app", "--title", "T", "--files", "x"),
    )
    assert (spawned.code, spawned.out) == (1, "")
    assert "app cannot be worked on now: core is a dependency" in spawned.err
    unknown = server.run("repo", "can-spawn", "cor")
    assert (unknown.code, unknown.out) == (1, "")
    assert "The policy has no repo 'cor'" in unknown.err


@pytest.mark.requirement("CC-05")
def test_only_the_operator_can_release_a_repo_and_only_when_nobody_works_on_it(
    server: PolicyServer,
) -> None:
    task_id = server.spawn("core", at_work=True)
    release = ("repo", "release", "core", "--reason", "reverted")
    refused = server.run(*release)
    assert (refused.code, refused.out) == (1, "")
    assert "only the operator may do this" in refused.err
    too_early = server.operate(*release)
    assert (too_early.code, too_early.out) == (1, "")
    assert f"cancel {task_id} first" in too_early.err
    server.ok("task", "cancel", task_id)
    assert server.run("repo", "can-spawn", "app").code == 1
    assert server.operate(*release) == (0, "released core\n", "")
    assert server.operate(*release) == (0, "core was not locked; nothing was changed\n", "")
    assert server.ok("repo", "can-spawn", "app") == ["work on app may start"]


@pytest.mark.requirement("CC-05")
def test_a_policy_repo_is_locked_whether_given_by_name_or_by_folder(
    server: PolicyServer,
) -> None:
    options = ("--title", "T", "--files", "src/", "--criterion", "it is well")
    Repo(server.folder / "other")
    server.ok("handoff", "spawn", "t-other", "--repo", "other", *options)
    assert [repo["locked_by"] for repo in server.json("repo", "list")["repos"]] == [None, None]
    server.ok("handoff", "spawn", "t-core", "--repo", "./core", *options)
    assert server.json("repo", "list")["repos"][0]["locked_by"] == "t-core"
    (owner,) = server.json("handoff", "owners", "--repo", "core", "--files", "src/a")["holders"]
    assert owner["bead_id"] == "t-core"


@pytest.mark.requirement("CC-01", "CC-02", "CC-03", "CC-18")
def test_milestones_lead_to_proof_and_a_red_sync_job_is_refused(
    server: PolicyServer,
) -> None:
    task_id = server.spawn("core", at_work=True)
    line = "WORKING: Writing it [substate: writing_tests] [files: 1/4]"
    assert server.ok("milestone", task_id, *line.split(), "--name", WORKER) == [
        f"t-core recorded: {line}",
        "progress: 1/4 files",
    ]
    red = server.core.commit("without what the sync wants")
    pushed = ("--milestone", "PUSHED_TO_CI", "--repo", "core", "--ci-run", "1", "--commit")
    lines = server.ok("milestone", task_id, *pushed, red)
    assert lines[0] == f"t-core recorded: PUSHED_TO_CI: core commit {red} - CI run #1"
    assert lines[1].startswith(f"CI of {red[:10]}: ")
    assert any("get_ci_instructions" in one for one in lines)
    server.wait_for(task_id, state="executing")
    claimed = server.run(
        "milestone", task_id, "DONE: core CI run #1 all green, radicle-push: success"
    )
    assert claimed.code == 1
    assert "- radicle-push failed (run #1)" in claimed.out
    assert claimed.err.startswith("t-core was refused: 1 violation")
    shown = server.ok("repo", "list")[1].split()
    assert (shown[1], shown[5:8]) == ("core", ["failed", red[:10], "#1"])
    (core, app) = server.json("repo", "list")["repos"]
    assert (core["worker"], core["milestone"], app["worker"]) == (WORKER, "FIXING_CI", None)

    fixing = ("--failed-job", "radicle-push", "--diagnosis", "nothing to sync")
    server.ok("milestone", task_id, "--milestone", "FIXING_CI", *fixing)
    green = server.core.commit("with it", {"synced": "yes\n"})
    server.ok("milestone", task_id, *pushed, green)
    server.wait_for(task_id, status="done")
    assert server.json("repo", "list")["repos"][0]["ci"] == "green"
    assert server.ok("repo", "can-spawn", "app") == ["work on app may start"]
    events = server.run("events", "default").out
    assert f"CI run #1 of core failed, commit {red[:10]}: radicle-push failed" in events
    assert "t-core released core: the work is accepted" in events


@pytest.mark.requirement("CC-01", "CC-02")
def test_a_claim_without_a_reported_push_is_followed_until_its_ci_is_green(
    server: PolicyServer,
) -> None:
    task_id = server.spawn("core", at_work=True)
    sha = server.core.commit("with it", {"synced": "yes\n"})
    claimed = server.run("complete", task_id, "--commit", sha)
    if claimed.code:  # CI was slower than the verdict
        assert "the server watches the run" in claimed.out + claimed.err
    server.wait_for(task_id, status="done")


@pytest.mark.requirement("CC-02")
def test_a_milestone_is_given_as_a_line_or_options_and_errors_are_explained(
    server: PolicyServer,
) -> None:
    task_id = server.spawn("core", at_work=True)
    both = server.run("milestone", task_id, "WORKING: x", "--description", "x")
    assert both == (1, "", "give a line or options, not both\n")
    neither = server.run("milestone", task_id)
    assert (neither.code, neither.out) == (1, "")
    assert neither.err.startswith("the milestone is missing; give a line such as")
    lacking = server.run("milestone", task_id, "PUSHED_TO_CI: core commit abcdef1")
    assert (lacking.code, lacking.out) == (1, "")
    assert lacking.err.startswith("PUSHED_TO_CI: missing ci_run; the format is PUSHED_TO_CI: ")
    early = server.run("milestone", task_id, "FIXING_CI: test - it fails", "--json")
    assert (early.code, early.err) == (1, "")
    assert '"code":"illegal_transition"' in early.out
    unknown = server.run("milestone", "t-9", "WORKING: x")
    assert (unknown.code, unknown.out) == (1, "")


@pytest.mark.requirement("CC-15")
def test_a_fatal_failure_halts_the_chain_until_the_operator_resumes_it(
    server: PolicyServer,
) -> None:
    task_id = server.spawn("core", at_work=True)
    retried = server.ok("failure", task_id, "502 Bad Gateway", "--type", "502_bad_gateway")
    assert retried[0] == "t-core: transient, 1 in a row: retry in 5 s"
    fatal = server.ok("failure", task_id, "a key is in it", "--type", "api_key_exposed_in_commit")
    assert fatal[0].startswith("t-core: fatal, 1 in a row: halt (halt 1) (question ")
    shown = server.ok("repo", "list")
    assert "of app, core: a key is in it" in " ".join(shown)
    assert "shiftboss resume 1 --reason 'it is fixed'" in shown[-1]
    refused = server.run("repo", "can-spawn", "app")
    assert "halt 1: a key is in it" in refused.err
    resume = ("resume", "1", "--reason", "revoked")
    assert server.run(*resume).code == 1
    assert server.operate(*resume) == (0, "halt 1 is lifted\n", "")
    assert server.json("repo", "list")["halts"] == []
    assert server.operate(*resume) == (0, "halt 1 was already lifted\n", "")
    unknown = server.operate("resume", "9", "--reason", "revoked")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("There is no halt 9")


@pytest.mark.requirement("CC-07")
def test_the_second_denial_of_a_tool_ends_the_worker(server: PolicyServer) -> None:
    task_id = server.spawn("core", at_work=True)
    denied = ("Permission to use Bash has been auto-denied", "--tool", "Bash")
    first = server.json("failure", task_id, *denied)
    second = server.json("failure", task_id, *denied)
    assert [one["failure_class"] for one in (first, second)] == ["permission_denied"] * 2
    assert first["action"] == "report"
    assert "report BLOCKED_PERMISSION: Bash - Permission to use Bash has been" in first["message"]
    assert "do not work around it unless the orchestrator tells you how" in first["message"]
    assert second["action"] == "terminate"
    assert task(server.client, task_id)["status"] == "failed"


@pytest.mark.requirement("CC-08")
def test_the_worker_prompt_omits_ci_which_comes_in_a_later_prompt(
    server: PolicyServer,
) -> None:
    task_id = server.spawn("core")
    prompt = server.ok("prompt", task_id)
    assert "TASK t-core in core: Work on core" in prompt
    assert "radicle-push" not in " ".join(prompt)
    assert server.json("prompt", task_id)["text"].splitlines() == prompt
    assert {"FIXING_CI: job - cause", "DONE: repo CI run #id all green, job: success"} <= {*prompt}

    def refused(reason: str) -> None:
        early = server.run("prompt", task_id, "--ci")
        assert (early.code, early.out) == (1, "")
        assert early.err.startswith(f"{reason}; the CI instructions come with PUSHED_TO_CI; push")

    refused("t-core has no milestone yet")
    server.begin(task_id)
    refused("t-core is at WORKING")
    red = server.core.commit("without what the sync wants")
    server.ok("milestone", task_id, f"PUSHED_TO_CI: core commit {red} - CI run #1")
    assert "radicle-push" in server.run("prompt", task_id, "--ci").out
    server.wait_for(task_id, state="executing")
    assert "radicle-push" in server.run("prompt", task_id, "--ci").out


@pytest.mark.requirement("CC-11")
def test_checkpoints_are_shown_and_exported_with_the_contracts_fields(
    server: PolicyServer,
) -> None:
    task_id = server.spawn("core")
    none = server.run("checkpoint", "show", task_id)
    assert (none.code, none.out) == (1, "")
    assert none.err.startswith("t-core has no checkpoint")
    assert server.ok("checkpoint", "export") == ["no task has a checkpoint; nothing was written"]
    server.begin(task_id)
    server.ok("milestone", task_id, "WORKING: Writing the parser")
    shown = {
        line[:19].strip(): line[19:].strip() for line in server.ok("checkpoint", "show", task_id)
    }
    assert (shown["worker_id"], shown["repo_name"]) == (WORKER, "core")
    assert shown["current_milestone"] == "WORKING"
    (name,) = server.ok("checkpoint", "export", "--out", "kept")
    written = server.folder / name
    assert written.parent == server.folder / "kept" / "sessions"
    assert written.name.endswith(f"-{WORKER}.checkpoint.cspec")
    fields = yaml.safe_load(written.read_text())
    assert fields["component_id"] == task_id
    assert {"worker_id", "repo_name", "timestamp", "commits", "ci_runs", "files_modified"} <= set(
        fields
    )
    taken = server.run("checkpoint", "export", "--out", "core/README.md")
    assert (taken.code, taken.out) == (1, "")
    assert taken.err.startswith("cannot write core/README.md/sessions/")


@pytest.mark.requirement("CC-11")
def test_a_checkpoint_has_the_files_the_runs_and_the_decisions(server: PolicyServer) -> None:
    task_id = server.spawn("core", "notes.txt", at_work=True)

    def body() -> dict[str, Any]:
        fields: dict[str, Any] = server.json("checkpoint", "show", task_id)["checkpoint"]["body"]
        return fields

    first = server.core.commit("begin", {"notes.txt": "to do\n"})
    working = ("WORKING: Writing it", "--decision", "one file is enough")
    server.ok("milestone", task_id, *working)
    assert (body()["commits"], body()["files_modified"]) == ([first], ["notes.txt"])
    server.ok("milestone", task_id, f"PUSHED_TO_CI: core commit {first} - CI run #1")
    server.wait_for(task_id, state="executing")
    server.ok("milestone", task_id, "FIXING_CI: radicle-push - there is no file synced")
    asked = server.json("milestone", task_id, "BLOCKED: May I add it?")["question_id"]
    server.ok("questions", "answer", str(asked), "yes, an empty one")
    decisions = [
        "one file is enough",
        "radicle-push: there is no file synced",
        "May I add it?: yes, an empty one",
    ]
    assert body()["decisions_made"] == decisions
    server.core.git("rm", "--quiet", "notes.txt")
    second = server.core.commit("finish", {"synced": ""})
    server.ok("milestone", task_id, f"PUSHED_TO_CI: core commit {second} - CI run #2")
    assert body()["files_modified"] == ["synced"]
    server.wait_for(task_id, status="done")
    done = body()
    assert (done["current_milestone"], done["decisions_made"]) == ("DONE", decisions)
    assert done["commits"] == [first, second]
    (name,) = server.ok("checkpoint", "export")
    exported = yaml.safe_load((server.folder / name).read_text())
    (run,) = exported["ci_runs"]
    assert (run["status"], sorted(run["jobs_passed"])) == ("success", ["radicle-push", "test"])
    assert run["id"]


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize("command", [("repo", "list"), ("repo", "can-spawn", "core")], ids=" ".join)
def test_everyday_contract_commands_import_nothing_heavy(
    server: PolicyServer, command: tuple[str, ...]
) -> None:
    imported = imported_by(*command, "--json", url=server.url)
    heavy = {"pydantic", "pydantic_core", "httpx2", "mcp", "asyncio", "rich", "yaml"}
    assert imported & heavy == set()
