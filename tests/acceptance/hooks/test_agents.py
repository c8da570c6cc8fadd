"""Agent hooks: an edit outside the contract is refused before it is made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shiftboss.agents.agent import REFUSED, ToolHook
from shiftboss.agents.opencode.launch import hook_plugin
from shiftboss.agents.registry import hook_of
from shiftboss.hooks.command import hook_argv
from shiftboss.hooks.contract import (
    POINTER,
    ContractUnreadable,
    hash_of,
    read_contract,
    write_contract,
)
from shiftboss.hooks.tool_hook import refusal
from shiftboss.protocol.handoffs import Context as HandoffContext
from shiftboss.protocol.handoffs import Contract, Escalation, WorkerHandoff, handoff_hash
from tests.acceptance.hooks.hook_fixtures import TaskWorkspace
from tests.repos import ENVIRONMENT

pytestmark = pytest.mark.requirement("HO-10")

PATCH = "*** Begin Patch\n*** Add File: src/auth/a.py\n+x\n*** Update File: {}\n*** End Patch\n"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> TaskWorkspace:
    """Shared by all tests: no tool call is carried out, so nothing in it changes."""
    workspace = TaskWorkspace(tmp_path_factory.mktemp("hooks"))
    tree, outside = workspace.tree, workspace.tree.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    (tree / "src/auth/out").symlink_to(outside)
    (tree / "src/auth/away").symlink_to("../../README.md")
    (tree / ".gitignore").write_text("*.log\nbuild/\n")
    (tree / "build").mkdir()
    (tree / "build/x").write_text("x")
    return workspace


def judged(
    workspace: TaskWorkspace, given: dict[str, Any], kind: str = "pre-tool-use"
) -> str | None:
    hook = hook_of(kind)
    assert isinstance(hook, ToolHook)
    return refusal(hook, given, read_contract(workspace.contract), str(workspace.contract))


def test_the_hook_process_judges_an_edit_and_its_refusal_names_the_contract(
    workspace: TaskWorkspace,
) -> None:
    allowed = workspace.use("Write", file_path=f"{workspace.tree}/src/auth/login.py", content="x")
    assert allowed == (0, "", "")
    refused = workspace.use(
        "Edit", file_path=f"{workspace.tree}/README.md", old_string="a", new_string="b"
    )
    contract = read_contract(workspace.contract)
    assert (refused.code, refused.out) == (2, "")
    assert "README.md is not in files_owned" in refused.err
    assert f"task t, version 1, {contract.hash[:12]}" in refused.err
    assert 'request_scope(swarm_id="s", bead_id="t", paths=["README.md"]' in refused.err


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("src/auth/login.py", True),
        ("src/auth/deep/er/new.py", True),
        ("docs/new.md", True),
        ("src/auth/../auth/./login.py", True),
        ("src/lib/jwt.py", False),
        ("src/auth", False),
        (".", False),
        ("src/auth/names.py", False),  # readonly
        ("src/auth/NAMES.py", False),  # the same file on a case-insensitive file system
        ("SRC/auth/login.py", False),
        ("src/auth/conftest.py", False),  # configures tests
        ("src/auth/.git/config", False),
        (".git", False),
        ("src/auth/out/file", False),  # a link out of the tree
        ("src/auth/away", False),  # a link to a file that is not owned
        ("../outside/file", False),
        ("src/auth/../../../outside/file", False),
        ("/etc/passwd", False),
        ("/dev/null", False),
        ("/tmp/notes.md", False),
        ("~/notes.md", False),
        ("src/auth/lоgin.py", True),  # a different name, with a letter that only looks the same
        ("srс/auth/login.py", False),  # and a different folder
        ("src/auth/x.log", True),
        ("x.log", False),
    ],
)
@pytest.mark.parametrize("tool", ["Write", "NotebookEdit"])
def test_edits_are_judged_by_their_path(
    workspace: TaskWorkspace, path: str, is_allowed: bool, tool: str
) -> None:
    key = "notebook_path" if tool == "NotebookEdit" else "file_path"
    given = workspace.call(tool, None, **{key: path})
    assert (judged(workspace, given) is None) is is_allowed
    if not path.startswith(("/", "~")):
        absolute = workspace.call(tool, Path("/"), **{key: f"{workspace.tree}/{path}"})
        assert (judged(workspace, absolute) is None) is is_allowed
        below = workspace.call(tool, workspace.tree / "src", **{key: f"../{path}"})
        assert (judged(workspace, below) is None) is is_allowed


@pytest.mark.parametrize(
    ("tool", "given", "is_allowed"),
    [
        ("Read", {"file_path": "/etc/passwd"}, True),
        ("Read", {"file_path": "/shop/.shiftboss/operator-token"}, False),
        ("Grep", {"pattern": "operator-token", "path": ""}, True),
        ("Bash", {"command": "shiftboss approve t --swarm s"}, False),
        ("Bash", {"command": "shiftboss status"}, True),
        ("Grep", {"path": "/etc", "pattern": "x"}, True),
        ("Glob", {"path": "..", "pattern": "*"}, True),
        ("TodoWrite", {"todos": [{"content": "x"}]}, True),
        ("Write", {"file_path": "src/auth/a.md", "content": PATCH}, True),
        ("WebFetch", {"url": "https://x"}, True),
        ("mcp__forge__create_issue", {"title": "x"}, True),
        ("MultiEdit", {"file_path": "src/auth/a.py", "edits": [{"old_string": "x"}]}, True),
        ("MultiEdit", {"edits": [{"file_path": "src/auth/a.py"}, {"file_path": "b"}]}, False),
        ("mcp__shiftboss__request_scope", {"bead_id": "t", "paths": ["README.md"]}, True),
        ("mcp__shiftboss__swarm_complete", {"bead_id": "t", "files_touched": ["b"]}, True),
        ("mcp__files__read_file", {"path": "/etc/passwd"}, True),
        ("mcp__files__write_file", {"path": "/etc/passwd"}, False),
        ("SomeNewEditor", {"path": "README.md"}, False),
        ("SomeNewEditor", {"path": "src/auth/a.py"}, True),
    ],
)
def test_tool_calls_are_judged_by_the_contract(
    workspace: TaskWorkspace, tool: str, given: dict[str, Any], is_allowed: bool
) -> None:
    assert (judged(workspace, workspace.call(tool, **given)) is None) is is_allowed


ALLOWED_COMMANDS = [
    "ls -la /etc && cat /etc/passwd",
    "echo hi",
    "python -m pytest -q > /dev/null 2>&1",
    "echo x > src/auth/a.py",
    "cd src/auth && echo x >> login.py && cd - && ls",
    "mkdir -p build docs/any && touch src/auth/new.py",
    "echo x > out.log",
    "rm -rf build",
    "rm -rf src/auth/deep __pycache__",
    "rm src/auth/out",
    "echo x > /tmp/notes-of-mine",
    'echo x > "$TMPDIR/y"',
    "sed -i s/a/b/ src/auth/*.log",
    "find . -name '*.pyc' -delete",
    "find src/auth -type f ! -name names.py -delete",
    "find . -name __pycache__ -type d -exec rm -rf {} +",
    "find . -type d -empty -delete",
    "find . \\( -name '*.pyc' -o -iname '*.PYO' \\) -mtime +3 -delete",
    "find . -path ./src/lib -prune -o -name jwt.py -exec rm {} \\;",
    "find . -mindepth 4 -exec rm {} +",
    "find . -name '*.py' -exec grep -l x {} +",
    "find . -name login.py -exec sed -i s/a/b/ {} \\;",
    "find build -delete",
    "find /tmp/mine-alone -delete",
    "git fetch . main:task",
    "echo x > $SOMEWHERE",
    'python -c \'open("/etc/x", "w")\'',
    "git status; git log --oneline; git -C .. log",
    "git add -A && git commit -m 'feat: x'",
    "git commit -m \"$(cat <<'EOF'\nit's (done)\nEOF\n)\"",
    "git checkout -- README.md",
    "git checkout HEAD -- README.md",
    "git push origin task",
    "git stash && git stash pop",
    "cp src/lib/jwt.py src/auth/",
    "mv src/auth/login.py src/auth/entry.py",
    "tar xzf x.tgz",
    "npm ci && npm test",
    "ln -s ../lib src/auth/lib",
    f"bash -c {json.dumps('echo x > src/auth/a')}",
]
REFUSED_COMMANDS = [
    "echo x > README.md",
    "echo x >> src/lib/jwt.py",
    "echo x > src/auth/names.py",
    "cd src && echo x > lib/jwt.py",
    "cd .. && echo x > x",
    "cd src/auth && echo x > ../../../x",
    "cd src/auth/out && echo x > x",
    "echo x > src/auth/out/file",
    "echo x > src/auth/away",
    "echo x > ~/x",
    "echo x > /etc/$NAME",
    "tee /etc/x < a",
    "cp src/auth/login.py src/lib/",
    "cp src/auth/login.py README.md",
    "cp -r src/auth /etc/",
    "mv src/lib/jwt.py src/auth/",
    "mv src/auth/login.py ..",
    "rm README.md",
    "rm -rf src",
    "rm -rf *",
    "rm -rf .",
    "rm -rf ../tree",
    'rm -rf "$PWD"',
    "rm -rf /",
    "rm .git",
    "rm -rf .git",
    "rm -rf src/auth/../../.GIT",
    "tar xf x.tar -C .git/hooks",
    "echo x > .git/config",
    "ln /etc/passwd src/auth/passwd",
    "sed -i s/a/b/ README.md",
    "sed -i s/a/b/ src/*/*.py",
    "dd if=/dev/zero of=/dev/sda",
    "find .. -name x -delete",
    "find . -delete",
    "find -delete",
    "find src -name '*.py' -delete",
    "find src -name '*.pyc' -o -name 'jwt.*' -delete",
    "find . -newer README.md -delete",
    "find . -maxdepth 1 -type f -exec rm {} \\;",
    "find src/l* -exec rm -rf {} +",
    "find . -name lib -exec rm -rf {} +",
    "find . -path ./src/lib -prune -o -name jwt.py -delete",
    "find . -name x , -name README.md -delete",
    "find README.md -delete",
    "find . -name '*.py' -exec sed -i s/a/b/ {} +",
    "find . -name '*.md' -execdir mv {} /tmp/ \\;",
    "find .git -name '*.sample' -delete",
    "find . -name .git -exec rm -rf {} +",
    "find src/auth -type f -delete",
    "echo x > .git/info/grafts",
    "echo x > .git/refs/heads/main",
    "echo x > $(git rev-parse --git-dir)/info/grafts",
    "cp x .git/hooks/pre-commit",
    "ln -s /x .git/hooks/post-commit",
    "sed -i s/a/b/ .git/config",
    "git fetch . HEAD:release",
    "git symbolic-ref HEAD refs/heads/main",
    "git replace HEAD~1 HEAD",
    "find .. -name x -exec rm {} +",
    "ls | xargs -I{} cp {} /etc",
    "bash -c 'cd .. && touch x'",
    'env A=1 timeout 5 sh -c "echo > README.md"',
    "bash <<'EOF'\nrm README.md\nEOF",
    "git -C .. commit -m x",
    "cd .. && git reset --hard",
    "git clean -fdx ..; cd / && git clean -fdx",
    "git checkout main~0 -- README.md",
    "git rm README.md",
    "git mv README.md src/auth/",
    "git commit --no-verify -m x",
    "git config core.hooksPath /dev/null",
    "git push --force",
    "mkdir ../other",
    "echo 'unbalanced",
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: README.md\n*** End Patch\nEOF",
]


@pytest.mark.parametrize("command", ALLOWED_COMMANDS)
def test_commands_within_the_contract_are_allowed(
    workspace: TaskWorkspace, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert judged(workspace, workspace.call("Bash", command=command)) is None


@pytest.mark.parametrize("command", REFUSED_COMMANDS)
def test_commands_that_leave_the_contract_are_refused(
    workspace: TaskWorkspace, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")  # not below the temporary folder
    refused = judged(workspace, workspace.call("Bash", command=command))
    assert refused is not None
    assert "contract of task t, version 1" in refused


def test_the_contract_and_other_trees_in_a_temporary_folder_are_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = TaskWorkspace(tmp_path / "runs")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for path in (workspace.contract, workspace.tree.parent / "sibling/x"):
        assert judged(workspace, workspace.call("Bash", command=f"echo x > {path}")) is not None
    assert judged(workspace, workspace.call("Bash", command=f"echo x > {tmp_path}/free/x")) is None


def test_the_repository_of_a_work_tree_in_a_temporary_folder_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = TaskWorkspace(tmp_path / "repos")
    linked = tmp_path / "trees" / "t"
    workspace.repo.git("worktree", "add", "--quiet", "--force", str(linked), "task")
    workspace.contract = tmp_path / "trees" / "contract.json"
    workspace.write(tree=str(linked))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    git = workspace.tree / ".git"
    for command in (
        f"echo x > {git}/info/grafts",
        f"tee -a {git}/config",
        f"cp x {git}/hooks/pre-commit",
        f"echo x > {git}/refs/heads/main",
        f"echo x > {git}/worktrees/t/HEAD",
        f"find {git} -name packed-refs -delete",
        'echo x > "$(git rev-parse --git-common-dir)/info/grafts"',
        "find . -maxdepth 1 -name .git -delete",
    ):
        assert judged(workspace, workspace.call("Bash", linked, command=command)) is not None, (
            command
        )
    own = "git init --quiet ../../mine && echo x > ../../mine/.git/config"
    assert judged(workspace, workspace.call("Bash", linked, command=own)) is None


@pytest.mark.parametrize("path", ["src/auth/b.py", "README.md"])
def test_the_tool_calls_of_every_agent_are_understood(workspace: TaskWorkspace, path: str) -> None:
    """Captured tool calls of Codex, Gemini and opencode get the same verdict."""
    code = 0 if path.startswith("src") else 2
    patch = PATCH.format(path)
    cwd = str(workspace.tree)
    given: list[tuple[str, dict[str, Any]]] = [
        ("codex-pre-tool-use", workspace.call("apply_patch", input=patch)),
        ("codex-pre-tool-use", workspace.call("apply_patch", command=patch)),
        ("codex-pre-tool-use", workspace.call("Bash", command=f"apply_patch <<'EOF'\n{patch}EOF")),
        ("codex-pre-tool-use", workspace.call("Bash", command=["apply_patch", patch])),
        ("codex-pre-tool-use", workspace.call("Bash", command=["bash", "-lc", f"echo > {path}"])),
        (
            "gemini-before-tool",
            workspace.call("write_file", file_path=f"{cwd}/{path}", content="x"),
        ),
        ("gemini-before-tool", workspace.call("replace", file_path=path, old_string="x")),
        ("gemini-before-tool", workspace.call("run_shell_command", command=f"echo > {path}")),
        ("opencode-before-tool", {"tool": "write", "args": {"filePath": path}, "cwd": cwd}),
        ("opencode-before-tool", {"tool": "bash", "args": {"command": f"rm {path}"}, "cwd": cwd}),
        ("opencode-before-tool", {"tool": "patch", "args": {"patchText": patch}, "cwd": cwd}),
    ]
    for kind, call in given:
        done = workspace.hook(kind, call)
        assert done.code == code, (kind, call, done)
        assert ("README.md is not in files_owned" in done.err) is (code == 2)
        assert done.out == ("{}\n" if kind.startswith("gemini") and code == 0 else "")


def test_a_command_is_judged_from_the_folder_the_tool_starts_it_in(
    workspace: TaskWorkspace,
) -> None:
    given = workspace.call("Bash", command="echo x > login.py", workdir="src/auth")
    assert judged(workspace, given) is None
    assert (
        judged(workspace, workspace.call("Bash", command="echo x > login.py", workdir=".."))
        is not None
    )


def _broken_inputs() -> list[bytes]:
    call = {"tool_name": "Write", "tool_input": {"file_path": "src/auth/a"}, "cwd": "/"}
    without = [{key: value for key, value in call.items() if key != left} for left in call]
    wrong: list[object] = [
        *without,
        call | {"cwd": "here"},
        call | {"tool_input": "x"},
        call | {"tool_input": {"file_path": ["a"]}},
        call | {"tool_input": {"file_path": "a\0b"}},
        call | {"tool_input": {}},
        call | {"tool_input": {"file": "src/auth/a"}},
        call | {"tool_name": "MultiEdit", "tool_input": {"edits": []}},
        call | {"tool_name": "apply_patch", "tool_input": {"input": "x"}},
        call | {"tool_name": "Bash", "tool_input": {}},
        call | {"tool_name": "Bash", "tool_input": {"command": ["rm", 1]}},
        [],
        None,
    ]
    texts = [json.dumps(one).encode() for one in wrong]
    return [*texts, b"", b"{", b"\xff", b"[" * 100_000]


@pytest.mark.parametrize("given", _broken_inputs(), ids=range(len(_broken_inputs())))
def test_malformed_tool_calls_are_refused(workspace: TaskWorkspace, given: bytes) -> None:
    done = workspace.hook("pre-tool-use", given)
    assert (done.code, done.out) == (2, "")
    assert "refused" in done.err


def test_oversized_input_is_refused(workspace: TaskWorkspace) -> None:
    given = workspace.call("Write", file_path="src/auth/a.py", content="x" * 9_000_000)
    assert workspace.hook("pre-tool-use", given).code == 0
    given["tool_input"]["content"] *= 2
    refused = workspace.hook("pre-tool-use", given)
    assert (refused.code, "larger than" in refused.err) == (2, True)


def test_with_a_changed_or_missing_contract_everything_is_refused(tmp_path: Path) -> None:
    workspace = TaskWorkspace(tmp_path)
    fine = json.loads(workspace.contract.read_text())
    greedy = json.loads(workspace.contract.read_text())
    greedy["handoff"]["contract"]["files_owned"] = ["**"]
    other = fine | {"bead_id": "u"}
    for text in (
        json.dumps(greedy),
        json.dumps(other),
        json.dumps(fine | {"format": 2}),
        "{",
        "[]",
    ):
        workspace.contract.write_text(text)
        done = workspace.use("Write", file_path="src/auth/a.py")
        assert done.code == 2, text
        assert done.err.startswith(REFUSED), "or it would count as a denial of the agent's own"
        assert "is missing or was changed" in done.err
        commit = workspace.hook("pre-commit", b"")
        assert (commit.code, "is missing or was changed" in commit.err) == (1, True)
    workspace.contract.unlink()
    assert workspace.use("Write", file_path="src/auth/a.py").code == 2


def test_a_contract_file_is_complete_and_private_and_has_the_handoffs_hash(tmp_path: Path) -> None:
    handoff = WorkerHandoff(
        contract=Contract(
            task_id="t",
            files_owned=["src/é/"],
            files_readonly=[],
            dependencies_completed=[],
            success_criteria=["x"],
        ),
        context=HandoffContext(
            epic_summary="ü", your_role="", what_others_did="", what_comes_next=""
        ),
        escalation=Escalation(),
    )
    assert hash_of(handoff.model_dump(mode="json")) == handoff_hash(handoff)
    workspace = TaskWorkspace(tmp_path)
    assert workspace.contract.stat().st_mode & 0o777 == 0o600
    before = workspace.contract.read_bytes()
    with pytest.raises(ContractUnreadable, match="contract_hash"):
        write_contract(workspace.contract, json.loads(before) | {"contract_hash": "0"})
    assert workspace.contract.read_bytes() == before
    assert list(tmp_path.glob("scratch/*.part")) == []


def test_a_session_is_bound_only_by_a_contract_variable_or_a_pointer_file(tmp_path: Path) -> None:
    workspace = TaskWorkspace(tmp_path)
    given = json.dumps(workspace.call("Write", file_path="README.md")).encode()

    def run(**variables: str) -> int:
        return subprocess.run(
            [sys.executable, "-m", "shiftboss.cli.main", "hook", "pre-tool-use"],
            input=given,
            capture_output=True,
            env=ENVIRONMENT | variables,
            cwd=workspace.tree / "src",
            timeout=60,
            check=False,
        ).returncode

    assert run() == 0
    assert run(SHIFTBOSS_CONTRACT=str(workspace.contract)) == 2
    assert run(SHIFTBOSS_CONTRACT=str(tmp_path / "nowhere")) == 2
    (workspace.tree / ".git" / POINTER).write_text(f"{workspace.contract}\n")
    assert run() == 2


def test_the_hook_command_does_not_load_the_other_commands(workspace: TaskWorkspace) -> None:
    """The entry point of the installed command: a hook must not wait for unrelated imports."""
    program = (
        "import sys; from shiftboss.cli.entry import main; "
        "sys.argv = ['shiftboss', 'hook', 'pre-tool-use', '--contract', sys.argv[1]]\n"
        "try:\n    main()\nfinally:\n"
        "    print([name for name in ('typer', 'pydantic', 'rich') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(workspace.contract)],
        input=json.dumps(workspace.call("Write", file_path="README.md")).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"[]\n")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_opencode_plugin_throws_the_hooks_message(
    workspace: TaskWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "plugin.mjs").write_text(
        hook_plugin(hook_argv("opencode-before-tool", workspace.contract))
    )
    script = """
        import { Shiftboss } from "./plugin.mjs"
        const [directory, filePath] = process.argv.slice(2)
        const hooks = await Shiftboss({ directory })
        await hooks["tool.execute.before"]({ tool: "write" }, { args: { filePath } })
    """
    (tmp_path / "try.mjs").write_text(script)

    def write(path: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["node", "try.mjs", str(workspace.tree), path],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert write("src/auth/a.py").returncode == 0
    refused = write("README.md")
    assert refused.returncode != 0
    assert "README.md is not in files_owned" in refused.stderr


def test_only_known_hooks_have_a_command_line(workspace: TaskWorkspace) -> None:
    with pytest.raises(ValueError, match="pre-tool-use"):
        hook_argv("pre-everything", workspace.contract)
    argv = hook_argv("stop", workspace.contract)
    unknown = subprocess.run(
        [*argv[:4], "pre-everything", *argv[5:]], capture_output=True, timeout=60, check=False
    )
    assert unknown.returncode == 2
