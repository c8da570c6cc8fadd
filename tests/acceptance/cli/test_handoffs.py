"""The commands for contracts, claims, scope and waivers, on a real repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.cli.handoff_commands import CRITERION, HONEST, Handoffs
from tests.commands import imported_by, on_terminal
from tests.repos import Repo
from tests.running import RunningServer


@pytest.fixture
def handoffs(shared_server: RunningServer, bus: InSwarm, tmp_path: Path) -> Handoffs:
    return Handoffs(shared_server, bus, Repo(tmp_path / "a repo"))


@pytest.mark.requirement("HO-01", "HO-03")
def test_a_spawned_task_shows_its_contract_and_its_workers_prompt(handoffs: Handoffs) -> None:
    more = ("--readonly", "src/lib/jwt.py", "--target", "main", "--strategy", "file-based")
    changing = ("--expectations-change", "tests/old/")
    done = handoffs.spawn(more=(*more, *changing))
    assert done.out.splitlines() == [
        "t-1 has contract version 1 and is open",
        "owns src/auth/",
        f"done when: {CRITERION}",
        f"to see the worker's prompt: shiftboss handoff show t-1 --prompt --swarm {handoffs.swarm}",
    ]
    view = handoffs.json("handoff", "show", "t-1")
    assert view["handoff"]["contract"] == {
        "task_id": "t-1",
        "files_owned": ["src/auth/"],
        "files_readonly": ["src/lib/jwt.py"],
        "dependencies_completed": [],
        "success_criteria": [CRITERION],
    }
    assert (view["repo"], view["base_commit"]) == (str(handoffs.repo.path), handoffs.repo.base)
    assert (view["branch"], view["target"], view["strategy"]) == ("task", "main", "file-based")
    prompt = handoffs.run("handoff", "show", "t-1", "--prompt")
    assert prompt == (0, view["prompt"], "")
    assert 'these tests of the base expect: ["tests/old/"].' in view["prompt"]
    lines = {line[:11].strip(): line[11:].strip() for line in _shown(handoffs, "t-1")}
    assert lines["owns"] == "src/auth/"
    assert lines["read only"] == "src/lib/jwt.py"
    assert lines["may change"] == "what tests expect in tests/old/"
    assert lines["base"] == handoffs.repo.base


def _shown(handoffs: Handoffs, task: str) -> list[str]:
    done = handoffs.run("handoff", "show", task)
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


@pytest.mark.requirement("OWN-14")
def test_the_operator_can_hold_tests_out(handoffs: Handoffs, tmp_path: Path) -> None:
    file = tmp_path / "more.py"
    file.write_text("def test_zebra(): ...\n")
    spawn = ("handoff", "spawn", "t-1", "--title", "T", "--files", "src/auth/")
    more = ("--held-out", f"tests/test_more.py={file}")
    criterion = ("--held-out-criterion", "Tests pass: python3 -m unittest tests.test_more")
    needs = handoffs.operate(*spawn, "--criterion", CRITERION, *more)
    assert needs.code == 1
    assert "held_out: needs a `criterion`" in needs.err
    done = handoffs.operate(*spawn, "--criterion", CRITERION, *more, *criterion, "--json")
    assert (done.code, done.err) == (0, "")
    shown = handoffs.run("handoff", "show", "t-1", "--json").out
    assert len(json.loads(shown)["held_out"]) == 64
    assert not any(word in done.out + shown for word in ("zebra", "test_more"))
    again = handoffs.operate(*spawn, "--criterion", CRITERION, "--held-out", f"tests/b.py={file}")
    assert again.code == 1


@pytest.mark.requirement("OWN-14")
def test_held_out_options_that_cannot_be_used_name_what_is_wrong(
    handoffs: Handoffs, tmp_path: Path
) -> None:
    spawn = ("handoff", "spawn", "t-1", "--title", "T", "--files", "src/auth/")
    (tmp_path / "binary").write_bytes(b"\xff")
    for option, problem in (
        ("a.py", "--held-out a.py: must be a path in the checkout, =, and a file"),
        (f"a.py={tmp_path}/no", f"--held-out: cannot read {tmp_path}/no: No such file"),
        (f"a.py={tmp_path}/binary", f"--held-out: {tmp_path}/binary is not UTF-8 text"),
    ):
        done = handoffs.operate(*spawn, "--held-out", option)
        assert done.code == 1
        assert done.err.startswith(problem)
    alone = handoffs.operate(*spawn, "--held-out-criterion", "Tests pass: x")
    assert alone.err.startswith("--held-out-criterion needs the tests that it runs")


@pytest.mark.requirement("HO-02")
def test_a_description_file_can_contain_success_criteria(handoffs: Handoffs) -> None:
    file = handoffs.repo.path.parent / "task.md"
    file.write_text("Give a token.\n\nCommand passes: git --version\n")
    spawn = ("handoff", "spawn", "t-1", "--title", "T", "--files", "src/auth/")
    printed = handoffs.run(*spawn, "--description-file", str(file), "--prompt")
    assert printed.code == 0
    assert "Command passes: git --version" in printed.out
    both = handoffs.run(*spawn, "--description-file", str(file), "--description", "x")
    assert both == (1, "", "give --description or --description-file, not both\n")
    missing = handoffs.run(*spawn, "--description-file", str(file) + "x")
    assert missing == (1, "", f"cannot read {file}x: No such file or directory\n")


@pytest.mark.requirement("HO-07")
def test_file_ownership_is_shown_and_an_overlap_is_refused(handoffs: Handoffs) -> None:
    nobody = handoffs.run("handoff", "owners")
    assert nobody == (0, f"no task owns files in {handoffs.repo.path}\n", "")
    handoffs.spawn()
    rows = [line.split() for line in handoffs.run("handoff", "owners").out.splitlines()]
    assert rows == [["TASK", "SWARM", "OWNS"], ["t-1", handoffs.swarm, "src/auth/"]]
    met = handoffs.run("handoff", "owners", "--files", "src/**/names.py").out.splitlines()
    assert met[1].split() == [
        *("t-1", handoffs.swarm, "src/auth/"),
        *("src/**/names.py", "src/auth/names.py"),
    ]
    free = handoffs.run("handoff", "owners", "--files", "README.md")
    assert free == (0, f"no task owns these files in {handoffs.repo.path}\n", "")
    spawn = ("handoff", "spawn", "t-2", "--title", "T", "--files", "src/auth/names.py")
    done = handoffs.run(*spawn)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("t-2 would own files of other tasks: t-1 owns src/auth/, ")


@pytest.mark.requirement("HO-05", "OWN-02")
def test_honest_work_is_accepted_and_shows_its_checks_and_receipt(handoffs: Handoffs) -> None:
    handoffs.spawn()
    commit = handoffs.repo.commit("work", HONEST)
    command = ("complete", "t-1", "--commit", commit[:12], "--name", "z.ai1")
    done = handoffs.run(*command, "--files-touched", "src/auth/login.py")
    assert (done.code, done.err) == (0, "")
    *table, last = done.out.splitlines()
    rows = [line.split()[:2] for line in table if line[:1] != " "]
    assert rows == [
        ["CHECK", "OUTCOME"],
        *([name, "passed"] for name in ("commit", "ancestry", "branch", "scope", "tests_kept")),
        ["criterion", "passed"],
    ]
    again = handoffs.json(*command, "--files-touched", "src/auth/login.py")
    assert (again["status"], again["commit"]) == ("accepted", commit)
    assert last == f"t-1 is done: commit {commit}, receipt {again['receipt_id']}"
    shown = "\n".join(_shown(handoffs, "t-1"))
    assert "claim 1 of z.ai1, attempt 1: accepted" in shown


@pytest.mark.requirement("HO-04")
def test_a_refused_cheat_lists_every_reason_and_what_to_do_about_it(handoffs: Handoffs) -> None:
    handoffs.spawn(more=("--readonly", "src/lib/jwt.py"))
    handoffs.repo.commit("sly", {"src/lib/jwt.py": "x = 1\n", "README.md": "mine\n"})
    done = handoffs.run("complete", "t-1", "--summary", "All done!")
    advice = "the task is still yours: fix it and complete it again; if the contract is wrong or"
    dispute = f"dispute t-1 --swarm {handoffs.swarm} --kind impossible --reason 'why it is so'"
    assert (done.code, done.err) == (
        1,
        f"t-1 was refused: 2 violations; {advice} cannot be met: shiftboss {dispute}\n",
    )
    waive = f"shiftboss waive t-1 --swarm {handoffs.swarm} --check scope"
    assert [line.strip() for line in _shown(handoffs, "t-1")][-2:] == [
        "to accept it although a check fails (operator):",
        f"{waive} --reason 'why it may fail'",
    ]
    lines = done.out.splitlines()
    reasons = [at for at, line in enumerate(lines) if line.startswith("- ")]
    assert [lines[at] for at in reasons] == [
        "- README.md was changed and is not in files_owned",
        "- src/lib/jwt.py was changed and is in files_readonly",
    ]
    assert all("request_scope" in lines[at + 1] for at in reasons)
    refused = handoffs.run("complete", "t-1", "--summary", "Really!", "--json")
    problem = json.loads(refused.out)
    assert (refused.code, problem["code"]) == (1, "contract_violations")
    assert [violation["path"] for violation in problem["violations"]] == [
        "README.md",
        "src/lib/jwt.py",
    ]
    assert "claim 2 of unnamed, attempt 1: refused" in "\n".join(_shown(handoffs, "t-1"))


@pytest.mark.requirement("HO-05")
def test_a_failed_command_shows_the_end_of_its_output(handoffs: Handoffs) -> None:
    handoffs.spawn(more=("--criterion", "Command passes: cat src/auth/nothing.py"))
    handoffs.repo.commit("work", HONEST)
    done = handoffs.run("complete", "t-1")
    assert done.code == 1
    assert "  cat: src/auth/nothing.py: No such file or directory" in done.out.splitlines()


@pytest.mark.requirement("HO-01")
def test_other_refused_completions_are_one_line_errors(handoffs: Handoffs) -> None:
    ask(handoffs.bus, "add_task", bead_id="plain", title="T")
    done = handoffs.run("complete", "plain")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Task plain has no handoff; create one first: ")
    assert done.err.count("\n") == 1


@pytest.mark.requirement("HO-05")
def test_a_terminal_shows_that_the_server_is_verifying(handoffs: Handoffs) -> None:
    handoffs.spawn()
    handoffs.repo.commit("work", HONEST)
    written = on_terminal(
        "complete", "t-1", "--swarm", handoffs.swarm, url=handoffs.url, columns=100
    )
    assert "verifying t-1" in written
    assert "t-1 is done: commit " in written


@pytest.mark.requirement("HO-09")
def test_unowned_files_are_granted_and_owned_files_wait_for_the_operator(
    handoffs: Handoffs,
) -> None:
    handoffs.spawn("t-1", "src/auth/")
    handoffs.spawn("t-2", "src/lib/")
    handoffs.repo.commit("sly", {"README.md": "mine\n"})
    assert handoffs.run("complete", "t-1").code == 1
    assert handoffs.run("scope", "list").out == "no open scope requests\n"
    request = ("scope", "request", "t-1")
    done = handoffs.run(*request, "README.md", "--reason", "it names the login")
    assert done == (0, "granted: t-1 now has contract version 2\n", "")
    asked = handoffs.run(*request, "src/lib/jwt.py", "--reason", "a new token")
    assert asked.out.splitlines() == [
        "t-2 owns src/lib/",
        "scope request 2 waits for a decision; do not change these files until then",
    ]
    listed = handoffs.run("scope", "list").out.splitlines()[1].split()
    assert listed[:4] == ["2", "t-1", "unnamed", "open"]
    assert listed[-4:] == ["src/lib/jwt.py", "a", "new", "token"]
    refused = handoffs.operate("scope", "refuse", "2", "--note", "ask t-2")
    assert refused == (0, "refused: t-1 does not get src/lib/jwt.py\n", "")
    everything = handoffs.json("scope", "list", "--all")["requests"]
    assert {one["request_id"]: (one["status"], one["decision"]) for one in everything} == {
        1: ("granted", "by rule: no other task owns it"),
        2: ("refused", "ask t-2"),
    }


@pytest.mark.requirement("HO-09")
def test_the_operator_can_grant_what_no_rule_grants(handoffs: Handoffs) -> None:
    handoffs.spawn()
    handoffs.repo.commit("sly", {"conftest.py": "x = 1\n"})
    assert handoffs.run("complete", "t-1").code == 1
    request = ("scope", "request", "t-1", "conftest.py", "--reason", "a fixture")
    asked = handoffs.json(*request)
    assert (asked["status"], asked["contract_version"]) == ("open", 1)
    grant = ("scope", "grant", str(asked["request_id"]))
    granted = handoffs.operate(*grant)
    assert granted == (0, "granted: t-1 now has contract version 2\n", "")
    owned = handoffs.json("handoff", "show", "t-1")["handoff"]["contract"]["files_owned"]
    assert owned == ["src/auth/", "conftest.py"]
    first = handoffs.json("handoff", "show", "t-1", "--version", "1")
    assert first["handoff"]["contract"]["files_owned"] == ["src/auth/"]


@pytest.mark.requirement("HO-09")
def test_a_waiver_passes_one_check_and_the_receipt_records_it(handoffs: Handoffs) -> None:
    handoffs.spawn()
    handoffs.repo.commit("work", HONEST | {"README.md": "# Login\n"})
    assert handoffs.run("complete", "t-1").code == 1
    waive = ("waive", "t-1", "--check", "scope", "--subject", "README.md", "--reason", "agreed")
    done = handoffs.operate(*waive, "--granted-by", "Ada")
    assert done == (0, "t-1: scope of README.md is waived\n", "")
    assert handoffs.run("complete", "t-1").code == 0
    receipt = handoffs.json("receipt", "show", "t-1")["signed_receipt"]["receipt"]
    assert receipt["waivers"] == [
        {"check": "scope", "subject": "README.md", "reason": "agreed", "granted_by": "Ada"}
    ]
    assert "scope (README.md) by Ada: agreed" in handoffs.run("receipt", "show", "t-1").out
    unknown = handoffs.operate("waive", "t-1", "--check", "taste", "--reason", "x")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("check: ")


@pytest.mark.requirement("HO-09")
def test_only_the_operator_can_replace_a_contract(handoffs: Handoffs) -> None:
    handoffs.spawn()
    wider = ("handoff", "spawn", "t-1", "--files", "src/", "--criterion", CRITERION)
    refused = handoffs.run(*wider)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("t-1 has a handoff, version 1; nothing was changed; ")
    replaced = handoffs.operate(*wider, "--replace")
    assert replaced.out.startswith("t-1 has contract version 2 and is open\nowns src/\n")


OPERATORS = [
    ("waive", "t-1", "--check", "scope", "--reason", "I say so"),
    ("scope", "grant", "1"),
    ("scope", "refuse", "1"),
    ("handoff", "spawn", "t-1", "--files", "src/", "--replace"),
]


@pytest.mark.requirement("HO-09")
@pytest.mark.parametrize("command", OPERATORS, ids=lambda command: command[1])
def test_without_the_operators_token_nothing_changes(
    handoffs: Handoffs, command: tuple[str, ...]
) -> None:
    handoffs.spawn()
    before = handoffs.json("handoff", "show", "t-1")
    missing = handoffs.run(*command)
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith(
        "only the operator may do this, and there is no operator's token here; "
    )
    wrong = handoffs.run(*command, SHIFTBOSS_OPERATOR_TOKEN="a-guess")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.startswith("only the operator may do this; ")
    assert "a-guess" not in wrong.err
    assert handoffs.json("handoff", "show", "t-1") == before


@pytest.mark.requirement("HO-09")
def test_the_operators_token_comes_from_a_private_file(handoffs: Handoffs) -> None:
    handoffs.spawn()
    waive = ("waive", "t-1", "--check", "scope", "--reason", "agreed")
    file = handoffs.repo.path.parent / ".shiftboss" / "operator-token"
    file.parent.mkdir()
    file.write_text(handoffs.operator_token)
    file.chmod(0o640)
    exposed = handoffs.run(*waive)
    assert exposed == (1, "", f"{file} can be read by other users; run: chmod 600 {file}\n")
    file.chmod(0o600)
    assert handoffs.run(*waive).code == 0
    # The named file is used, even if there are others.
    named = handoffs.repo.path.parent / "named"
    named.write_text("a-guess")
    named.chmod(0o600)
    assert handoffs.operate(*waive, "--operator-token-file", str(named)).code == 1


@pytest.mark.requirement("HO-08")
def test_strategies_are_suggested_by_their_track_record(handoffs: Handoffs) -> None:
    choice = handoffs.json("strategy", "suggest", "--seed", "7", "--goal", "Sign in")
    assert handoffs.json("strategy", "suggest", "--seed", "7") == choice
    lines = handoffs.run("strategy", "suggest", "--seed", "7").out.splitlines()
    assert lines[:2] == [choice["strategy"], f"because {choice['reason']}"]
    before = _record(handoffs, "by-layer")
    handoffs.spawn(more=("--strategy", "by-layer"))
    handoffs.repo.commit("sly", {"README.md": "mine\n"})
    assert handoffs.run("complete", "t-1").code == 1
    assert (before, _record(handoffs, "by-layer")) == (None, ["1", "0.0", "1.0"])


def _record(handoffs: Handoffs, strategy: str) -> list[str] | None:
    lines = handoffs.run("strategy", "list").out.splitlines()
    rows = {line.split()[0]: line.split()[1:4] for line in lines}
    return rows.get(strategy)


@pytest.mark.requirement("HO-01")
@pytest.mark.parametrize(
    "command",
    [("scope", "list"), ("strategy", "list"), ("receipt", "list"), ("handoff", "owners")],
    ids=" ".join,
)
def test_everyday_handoff_commands_import_nothing_heavy(
    handoffs: Handoffs, command: tuple[str, ...]
) -> None:
    imported = imported_by(*command, "--json", url=handoffs.url, folder=handoffs.repo.path)
    heavy = {"pydantic", "pydantic_core", "httpx2", "mcp", "asyncio", "rich", "cryptography"}
    assert imported & heavy == set()


@pytest.mark.requirement("HO-01")
def test_a_task_that_only_reads_is_spawned_by_a_flag(handoffs: Handoffs) -> None:
    spawn = ("handoff", "spawn", "reads", "--title", "T")
    for wrong in ((), ("--read-only", "--files", "src/")):
        refused = handoffs.run(*spawn, *wrong)
        assert refused.code == 1
        assert "give --files or --read-only" in refused.err
    done = handoffs.run(*spawn, "--read-only", "--landing", "squash", "--review", "required")
    assert (done.code, done.err) == (0, "")
    view = handoffs.json("handoff", "show", "reads")
    assert (view["landing"], view["review"]) == ("squash", "required")
    assert "owns nothing: it only reads" in done.out
    assert any("nothing: it only reads" in line for line in _shown(handoffs, "reads"))


@pytest.mark.requirement("OWN-16")
def test_the_sandbox_of_a_task_is_chosen_when_it_is_spawned(handoffs: Handoffs) -> None:
    handoffs.spawn(more=("--sandbox", "off", "--network", "none"))
    handoffs.repo.commit("work", HONEST)
    checks = handoffs.json("complete", "t-1", "--summary", "It gives a token.")["checks"]
    assert checks[-1]["sandbox"] == "none: switched off by the policy"
