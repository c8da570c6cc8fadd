"""Every parser of something that others have written, with valid inputs to start from."""

from __future__ import annotations

import hashlib
import hmac
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from shiftboss.agents.agent import ToolHook
from shiftboss.agents.registry import AGENTS, hook_kinds, hook_of
from shiftboss.client.errors import error_from_problem, is_problem, parse_json_object
from shiftboss.client.http_response import BadResponseError, Response
from shiftboss.evidence.attestations import read_envelope
from shiftboss.evidence.ci.forge_api import rate_limits, rows
from shiftboss.evidence.ci.forges import forgejo_tasks
from shiftboss.evidence.ci.local.act import parse_workflow
from shiftboss.evidence.ci.webhooks import parse_webhook
from shiftboss.evidence.mirror.changes import _lines_of_patch
from shiftboss.evidence.mirror.diffs import parse_patch
from shiftboss.evidence.receipt_verification import read_receipt
from shiftboss.evidence.survey.imports import go, javascript, node_packages, python, rust
from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.hooks.contract import ContractUnreadable, hash_of, read_contract
from shiftboss.hooks.shell.words import Unclear
from shiftboss.hooks.shell.writes import ShellWrites
from shiftboss.hooks.tool_hook import BadInput, read_call
from shiftboss.orchestrator.guardian.connection import LineSplitter
from shiftboss.protocol.contract.milestone_lines import parse_line
from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.protocol.packets import RegisterRequest
from shiftboss.protocol.plan import PlanAgent
from shiftboss.rules.claims.canaries.sabotage import sabotages
from shiftboss.rules.claims.criteria import parse_command, parse_criterion
from shiftboss.rules.claims.test_runs.report_files import read_report
from shiftboss.rules.claims.test_runs.runners import RunnerName
from shiftboss.rules.claims.test_runs.test_output import printed_report
from shiftboss.rules.contract.policy_file import read_policy
from shiftboss.rules.documents import json_edits
from shiftboss.rules.handoffs.described_criteria import described_criteria
from shiftboss.rules.paths.braces import normalize_patterns
from shiftboss.rules.paths.patterns import normalize_git_path, normalize_path, pattern_of
from shiftboss.rules.paths.repo_urls import checked_url, is_url
from shiftboss.rules.plans.plan_file import read_plan
from shiftboss.rules.runs.quota_messages import mentions_limit, reset_time
from shiftboss.rules.tasks.permission_denials import find_denial
from shiftboss.server.operations.swarms import parse
from shiftboss.store.postgres.notifications import parse_payload
from shiftboss.system.json_files import read_json_object
from shiftboss.system.state_folder import read_server_file
from shiftboss.tracker.checklists import files_named, read_checklist
from shiftboss.tracker.issues import read_issue_file
from shiftboss.worker.checkpoints import DamagedCheckpointError, read_checkpoint
from shiftboss.worker.outbox import Outbox
from tests.fuzz.hostile import as_bytes

LINES = Path(__file__).parents[1] / "unit" / "agents" / "agent_lines"
SECRET = "the secret of the webhook"  # not a secret
REPO = RepoView(["a/b.py", "package.json", "go.mod", "Cargo.toml", "src/lib.rs", "web/a.ts"], {})
PACKET = RegisterRequest(packet_id=1, packet_name="p", tasks_total=5, worktree="/w")

PLAN = """
goal: Sums
repos: {shop: {path: shop}}
agents: {script: {kind: command, command: [python3, agent.py]}}
agent: script
tasks:
- {id: one, title: Add one, files_owned: [one.py], criteria: ["Tests pass: python3 -m unittest"]}
- {id: two, title: Add two, depends_on: [one], files_owned: ["src/**/*.py"], criteria: [It works]}
"""
POLICY = """
repos:
  app: {path: ., depends_on: [lib], ci: {provider: github, repository: a/b, required_jobs: [test]}}
  lib: {path: ../lib, ci: {jobs: {test: {run: [make, test]}}}}
locking: chain
"""
JUNIT = """<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="2">
<testcase classname="tests.test_a" name="test_one" file="tests/test_a.py" time="0.1"/>
<testcase classname="tests.test_a" name="test_two"><failure message="no">text</failure></testcase>
</testsuite></testsuites>"""
BOMB = """<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;">]><testsuites>&d;</testsuites>"""
JEST = json.dumps(
    {
        "numTotalTests": 1,
        "testResults": [
            {
                "name": "/repo/a.test.js",
                "status": "passed",
                "assertionResults": [
                    {"fullName": "a b", "title": "b", "ancestorTitles": ["a"], "status": "passed"}
                ],
            }
        ],
    }
)
OUTPUT = """
============================= 3 passed, 1 skipped in 0.12s =============================
Ran 5 tests in 0.001s

OK (skipped=1)
test_one (tests.test_a.A.test_one) ... ok
--- PASS: TestOne (0.00s)
ok  \texample.com/a\t0.012s
running 2 tests
test tests::one ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
Tests:       1 failed, 2 passed, 3 total
# tests 5
# pass 5
"""
ISSUE = '{"id":"bd-1","title":"A","status":"open","dependencies":[{"depends_on_id":"bd-2"}]}'
CHECKLIST = "# Sums\n\n- [ ] Add one (files: one.py)\n  - [x] deep\n- [ ] Add two, after Add one\n"
FORGE_ROW = {
    "id": 7,
    "run_number": 3,
    "head_sha": "a" * 40,
    "status": "completed",
    "conclusion": "success",
    "event": "push",
    "name": "ci",
    "workflow_id": "ci.yml",
    "created_at": "2024-01-01T00:00:00Z",
    "updated_at": "2024-01-01T00:00:00Z",
    "html_url": "https://forge.example/a/b/actions/runs/3",
    "jobs": [{"name": "test", "status": "completed", "conclusion": "success", "steps": []}],
}
STATUS = {"context": "ci / test (push)", "status": "success", "target_url": "/a/b/actions/runs/3"}
WEBHOOK = {
    "action": "completed",
    "workflow_run": FORGE_ROW,
    "repository": {"full_name": "a/b"},
    "after": "a" * 40,
}
PATCH = """diff --git a/a.py b/a.py
index 0..1 100644
--- a/a.py
+++ b/a.py
@@ -0,0 +1,2 @@
+one
+two
"""
WORKFLOW = """
name: ci
on: [push]
jobs:
  test: {runs-on: ubuntu-latest, strategy: {matrix: {v: [1, 2]}}, steps: [{run: make test}]}
"""
CONTRACT_HANDOFF = {"contract": {"task_id": "one", "files_owned": ["src/"], "files_readonly": []}}
CONTRACT = json.dumps(
    {
        "format": 1,
        "swarm_id": "s",
        "bead_id": "one",
        "worker": "w",
        "epoch": 1,
        "contract_version": 1,
        "contract_hash": hash_of(CONTRACT_HANDOFF),
        "handoff": CONTRACT_HANDOFF,
        "generated": [],
        "tree": "/repo",
        "base": "a" * 40,
        "branch": "task",
        "target": "main",
        "server_url": "http://127.0.0.1:1",
    }
)
CALL = json.dumps(
    {
        "tool_name": "Bash",
        "tool": "bash",
        "args": {"command": "echo a > b"},
        "cwd": "/repo",
        "tool_input": {"command": "echo a > b", "file_path": "/repo/a.py"},
    }
)
SCRIPT = (
    "cd src && FOO=1 make -C x > out 2>&1 <<EOF\n$(cat a) `b` ${c:-d}\nEOF\nfind . -exec rm {} +\n"
)
PROBLEM = json.dumps({"type": "urn:shiftboss:conflict", "status": 409, "code": "conflict"})
PYTHON = "import a.b\nfrom . import c\n\ndef test_a():\n    assert c(1) == 2\n"
JAVASCRIPT = (
    "import a from './b'\nconst c = require(`d`)\nit('works', () => { expect(a).toBe(1) })\n"
)
GO = 'package a\nimport (\n\t"fmt"\n\tb "x/y"\n)\nfunc TestA(t *testing.T) { t.Error("x") }\n'
RUST = 'use crate::{a, b::{self, c}};\nmod d;\n#[test]\nfn it() { assert_eq!(1, r#"a"#.len()); }\n'
SOURCES = {"a.py": PYTHON, "a.test.js": JAVASCRIPT, "a_test.go": GO, "a.rs": RUST}


RUNNERS: tuple[RunnerName | None, ...] = ("unittest", "go", "cargo", None)


RESPONSES = (
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
)


class Target(NamedTuple):
    """`parse` may raise `refusals` beside our own errors."""

    name: str
    parse: Callable[[str], object]
    seeds: Sequence[str]
    refusals: tuple[type[Exception], ...] = ()


def _agent_targets() -> Iterable[Target]:
    for kind in AGENTS:
        names = [file for file in LINES.iterdir() if file.name.startswith(kind)]
        seeds = [line for file in names for line in file.read_text().splitlines()]
        yield Target(f"agent output: {kind}", _reads_line(kind), seeds or [OUTPUT])
    yield Target("agent output: lines", _split, [OUTPUT])


def _reads_line(kind: str) -> Callable[[str], object]:
    def parse(text: str) -> object:
        reader = AGENTS[kind].reader(PlanAgent(kind=kind, command=["agent"]))
        AGENTS[kind].session_of(text)
        return [*reader.read(text), *reader.read(text), *reader.ended(1, text)]

    return parse


def _split(text: str) -> object:
    splitter = LineSplitter()
    return [*splitter.cut(as_bytes(text)), splitter.rest()]


def _report_targets() -> Iterable[Target]:
    yield Target(
        "test report: junit", lambda t: read_report(as_bytes(t), "junit", "/repo"), [JUNIT, BOMB]
    )
    yield Target("test report: jest", lambda t: read_report(as_bytes(t), "jest", "/repo"), [JEST])
    for runner in RUNNERS:
        yield Target(f"test output: {runner}", _printed(runner), [OUTPUT])
    yield Target(
        "test output: template", lambda t: printed_report(None, t, "{passed} of {ran}"), [OUTPUT]
    )


def _printed(runner: RunnerName | None) -> Callable[[str], object]:
    return lambda text: printed_report(runner, text)


def _forge_targets() -> Iterable[Target]:
    yield Target("client: response", _response, RESPONSES, (BadResponseError,))
    yield Target("forge: runs", _forge_rows, [json.dumps({"workflow_runs": [FORGE_ROW]})])
    yield Target("forge: statuses", _forge_statuses, [json.dumps([STATUS])])
    yield Target("forge: rate limit", _rate_limit, ["60", "Wed, 21 Oct 2026 07:28:00 GMT", "0"])
    for provider in ("github", "forgejo"):
        yield Target(f"webhook: {provider}", _webhook(provider), [json.dumps(WEBHOOK)])
    yield Target("ci workflow", lambda t: parse_workflow("ci.yml", as_bytes(t)), [WORKFLOW])


def _response(text: str) -> object:
    """In pieces, and up to the end of the connection."""
    response = Response()
    data = as_bytes(text)
    for start in range(0, len(data), 7):
        if not response.is_complete:
            response.feed(data[start : start + 7])
    if not response.is_complete:
        response.feed(b"")
    return response.content


def _loaded(text: str) -> object:
    """As the client of the forge does."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _forge_rows(text: str) -> object:
    found = rows.rows_in(_loaded(text), "workflow_runs", "task_runs", "jobs")
    runs = list(rows.runs_in(found))
    jobs = list(rows.jobs_in(found))
    return rows.newest_first(runs), rows.rows_of(runs, "a" * 40), jobs


def _forge_statuses(text: str) -> object:
    return forgejo_tasks.statuses_in(rows.rows_in(_loaded(text)))


def _rate_limit(text: str) -> object:
    headers = {"retry-after": text, "x-ratelimit-reset": text, "x-ratelimit-remaining": text}
    rate_limits.is_rate_limit(403, headers, as_bytes(text))
    return rate_limits.hold_seconds(headers, 1e9), rate_limits.used_up_seconds(headers, 1e9)


def _webhook(provider: str) -> Callable[[str], object]:
    def parse(text: str) -> object:
        body = as_bytes(text)
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        names = ("x-hub-signature-256", "x-forgejo-signature", "x-gitea-signature")
        headers = {name: f"sha256={signature}" if "hub" in name else signature for name in names}
        event = {"x-github-event": "workflow_run", "x-forgejo-event": "workflow_run"}
        return parse_webhook(provider, headers | event, body, SECRET)

    return parse


def _repo_url(text: str) -> object:
    return checked_url(text) if is_url(text) else None


def _file_targets() -> Iterable[Target]:
    yield Target("plan", lambda t: read_plan(t, "plan.yaml", ["claude", "command"]), [PLAN])
    yield Target("policy", lambda t: read_policy(t, "shiftboss.yaml"), [POLICY])
    urls = ["https://host:1/a", "ssh://git@[::1]/a", "git@host:a", "file:///a%20b"]
    yield Target("repo URL", _repo_url, urls, (ValueError,))
    yield Target("checklist", _checklist, [CHECKLIST])
    yield Target("issues", lambda t: read_issue_file(as_bytes(t).splitlines()), [ISSUE])
    yield Target("receipt", lambda t: read_receipt(as_bytes(t)), ['{"receipt":{},"signature":""}'])
    yield Target(
        "envelope", lambda t: read_envelope(as_bytes(t)), ['{"payload":"","signatures":[]}']
    )
    yield Target("server.json", _server_file, ['{"address":"http://127.0.0.1:1","pid":1}'])
    yield Target(
        "outbox file", _outbox_file, ['{"swarm_id":"s","operation":"error","key":"k","body":{}}']
    )
    yield Target(
        "checkpoint",
        _checkpoint,
        ['{"event":"progress","packet_id":1,"packet_name":"p","tasks_completed":1}'],
        (DamagedCheckpointError,),
    )
    yield Target(
        "settings",
        _settings,
        ['{"a": [1, {"b": "c"}], "d": null}', '{"a": 1, // x\n}'],
        (json_edits.NotJson, json_edits.WrongKind),
    )


def _checklist(text: str) -> object:
    return read_checklist(text), files_named(text)


def _in_file(text: str, name: str, read: Callable[[Path], object]) -> object:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(as_bytes(text))
        file.chmod(0o600)
        return read(file)


def _server_file(text: str) -> object:
    return _in_file(
        text, "server.json", lambda file: (read_server_file(file.parent), read_json_object(file))
    )


def _outbox_file(text: str) -> object:
    return _in_file(text, "1.json", lambda file: Outbox(file.parent).read(file))


def _checkpoint(text: str) -> object:
    def read(file: Path) -> object:
        return read_checkpoint(PACKET.model_copy(update={"worktree": str(file.parents[1])}))

    return _in_file(text, ".spellbook/checkpoint-packet-1-p.json", read)


def _settings(text: str) -> object:
    json_edits.value_with_comments(text)
    return json_edits.set_member(text, ["mcpServers", "shiftboss"], {"url": "x"})


def _hook_targets() -> Iterable[Target]:
    yield Target(
        "hook: contract",
        lambda t: _in_file(t, "contract.json", read_contract),
        [CONTRACT],
        (ContractUnreadable,),
    )
    for kind in hook_kinds():
        hook = hook_of(kind)
        if isinstance(hook, ToolHook):
            yield Target(f"hook: {kind}", _reads_call(hook), [CALL], (BadInput,))
    yield Target(
        "hook: shell",
        lambda t: ShellWrites("/repo", {}, "task", "a" * 40).script(t),
        [SCRIPT],
        (Unclear,),
    )


def _reads_call(hook: ToolHook) -> Callable[[str], object]:
    def parse(text: str) -> object:
        given = _loaded(text)
        return read_call(hook, given) if isinstance(given, dict) else None

    return parse


def _text_targets() -> Iterable[Target]:
    line = "PUSHED_TO_CI: a commit 7f3a2b1 - CI run #89 [substate: ci_running] [jobs: 2/6]"
    yield Target("milestone line", parse_line, [line, "DONE", "[BLOCKED] bd-1: needs a token"])
    yield Target(
        "criterion", parse_criterion, ["Tests pass: python3 -m pytest 'a b'"], (ValueError,)
    )
    yield Target("command", parse_command, ["make test FOO='a b' \\x"], (ValueError,))
    yield Target(
        "described criteria", described_criteria, ["Do it.\n\nAcceptance:\n- `make` works\n"]
    )
    yield Target("pattern", _pattern, ["src/**/{a,b}/*.py", "docs/[a-z]?.md"], (ValueError,))
    yield Target(
        "hunks", lambda t: parse_patch(as_bytes(PATCH + t), 1000), [PATCH, "@@ -1,9 +1,9 @@\n+x"]
    )
    yield Target(
        "diff", lambda t: _lines_of_patch(as_bytes(PATCH + "+" + t.replace("\n", "\n+"))), [PATCH]
    )
    yield Target("quota message", _quota, ["You've hit your limit, resets 3pm (Europe/Berlin)"])
    yield Target(
        "denial", lambda t: find_denial(t, "Bash"), ["permission denied: Bash(rm) not allowed"]
    )
    yield Target("handoff", lambda t: parse(SpawnSubtaskRequest, as_bytes(t)), [HANDOFF])
    yield Target("problem", _problem, [PROBLEM])
    yield Target("notification", parse_payload, ['{"server":"a","events":[["s",1,2]]}'])


HANDOFF = json.dumps(
    {
        "bead_id": "t-1",
        "subtask_title": "T",
        "files": ["src/auth/"],
        "success_criteria": ["Tests pass: make test"],
        "repo": "/repo",
        "policy": {"sandbox": "off", "canaries": "off"},
    }
)


def _pattern(text: str) -> object:
    normalize_git_path(text)
    for part in normalize_patterns(normalize_path(text)):
        pattern_of(part)
    return None


def _quota(text: str) -> object:
    return mentions_limit(text), reset_time(text, 1e9)


def _problem(text: str) -> object:
    document = parse_json_object(as_bytes(text))
    is_error = document is not None and is_problem(document)
    return error_from_problem(409, document) if document is not None and is_error else None


def _source_targets() -> Iterable[Target]:
    for path, text in SOURCES.items():
        yield Target(f"sabotage: {path}", partial(sabotages, path), [text])
    yield Target("imports: python", lambda t: python.imported_by("a.py", t, REPO), [PYTHON])
    yield Target(
        "imports: javascript", lambda t: javascript.imported_by("a.js", t, REPO), [JAVASCRIPT]
    )
    yield Target("imports: go", lambda t: go.imported_by("a.go", t, REPO), [GO])
    yield Target("imports: rust", lambda t: rust.imported_by("src/a.rs", t, REPO), [RUST])
    yield Target(
        "package.json", node_packages.json_object_with_comments, ['{"name": "a", /* b */}']
    )


TARGETS = {
    target.name: target
    for targets in (
        _agent_targets(),
        _report_targets(),
        _forge_targets(),
        _file_targets(),
        _hook_targets(),
        _text_targets(),
        _source_targets(),
    )
    for target in targets
}
