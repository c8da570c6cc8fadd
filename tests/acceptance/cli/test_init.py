"""`shiftboss init` sets a repository up, checks it, and removes its changes again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.rules.documents.file_edits import hook_command
from tests.commands import COMMAND_SECONDS, Done, environment, shiftboss

ALL = {
    "shiftboss.yaml",
    "AGENTS.md",
    ".gitignore",
    ".mcp.json",
    ".claude/settings.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    "opencode.json",
    ".opencode/plugin/shiftboss.js",
    ".gemini/settings.json",
}
SERVER = {"type": "http", "url": "http://127.0.0.1:7432/mcp"}
# If we are root, drop the capability to write everywhere.
WITHOUT_ROOT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'shiftboss.cli.main', *sys.argv[1:]])"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sums"
    subprocess.run(["git", "init", "--quiet", "-b", "main", made], check=True)
    return made


def files(folder: Path) -> dict[str, bytes | str]:
    """Everything outside .git: contents of files, targets of links, a marker for folders."""
    contents: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == ".git":
            continue
        if path.is_symlink():
            contents[name] = str(path.readlink())
        else:
            contents[name] = path.read_bytes() if path.is_file() else "folder"
    return contents


def init(folder: Path, *arguments: str) -> Done:
    done = shiftboss("init", *arguments, folder=folder)
    assert done.code == 0, done.err
    return done


def refused(folder: Path, *arguments: str) -> str:
    """The one-line error; nothing has changed."""
    before = files(folder)
    done = shiftboss("init", *arguments, folder=folder)
    assert (done.code, done.out) == (1, "")
    assert files(folder) == before
    assert done.err.count("\n") == 1
    return done.err


@pytest.mark.requirement("OWN-01")
def test_init_sets_up_a_fresh_repository_once_and_can_undo_it(folder: Path) -> None:
    (folder / "Makefile").write_text("test:\n\ttrue\n")
    before = files(folder)
    missing = shiftboss("init", "--check", folder=folder)
    assert (missing.code, missing.err) == (1, "5 files must be written; run: shiftboss init\n")
    shown = init(folder, "--dry-run")
    assert "+++ b/shiftboss.yaml\n" in shown.out
    assert '+#        test: {run: ["make test"]}\n' in shown.out
    assert files(folder) == before

    done = init(folder)
    assert "created shiftboss.yaml\n" in done.out
    assert json.loads((folder / ".mcp.json").read_text()) == {"mcpServers": {"shiftboss": SERVER}}
    checked = shiftboss("policy", "check", folder=folder)
    assert checked.out.splitlines()[0] == "shiftboss.yaml is valid: 0 repos, locking neighbours"
    once = files(folder)
    assert init(folder).out == "nothing to do\n"
    assert init(folder, "--check").out == "nothing to do\n"
    assert files(folder) == once

    answer = json.loads(init(folder, "--remove", "--json").out)
    assert {one["action"] for one in answer["changes"]} == {"delete"}
    assert (answer["done"], answer["left"]) == (True, [])
    assert files(folder) == before
    assert init(folder, "--remove").out == "nothing to do\n"


@pytest.mark.requirement("OWN-01")
def test_init_sets_up_all_agents_or_the_given_ones_or_those_in_use(folder: Path) -> None:
    before = files(folder)
    answer = json.loads(init(folder, "--all-agents", "--json").out)
    assert {one["file"] for one in answer["changes"]} == ALL
    once = files(folder)
    # Agents that are set up stay set up without being named again.
    assert json.loads(init(folder, "--json").out)["agents"] == answer["agents"]
    assert init(folder, "--check").out == "nothing to do\n"
    init(folder, "--remove", "--agent", "codex")
    assert once.keys() - files(folder).keys() == {
        *(".codex", ".codex/config.toml", ".codex/hooks.json")
    }
    init(folder, "--remove")
    assert files(folder) == before

    (folder / ".gemini").mkdir()
    answer = json.loads(init(folder, "--dry-run", "--json").out)
    assert (answer["agents"], answer["done"]) == (["claude", "gemini"], False)
    answer = json.loads(init(folder, "--agent", "codex", "--json").out)
    assert answer["agents"] == ["codex"]
    assert init(folder, "--check").out == "nothing to do\n"
    assert refused(folder, "--agent", "cluade") == (
        "unknown agent 'cluade'; did you mean 'claude'?; "
        "known agents: claude, codex, opencode, gemini\n"
    )


@pytest.mark.requirement("OWN-01")
def test_existing_content_is_kept_and_restored_byte_for_byte(folder: Path) -> None:
    texts = {
        ".mcp.json": '{"mcpServers": {"zeta": {"command": "z"}, "alpha": {"command": "a"}}}',
        ".claude/settings.json": (
            '{\n\t"permissions": {"allow": ["Bash"]},\n\t"hooks": {\n\t\t"PreToolUse": [\n'
            '\t\t\t{"matcher": "Bash", "hooks": [{"type": "command", "command": "./look.sh"}]}\n'
            '\t\t]\n\t},\n\t"model": "x"\n}\n'
        ),
        "AGENTS.md": "# Rules\r\n\r\n- Be kind.",
        ".gitignore": "",
        ".codex/config.toml": 'model = "x"\n[tools]\nweb = true',
        "opencode.json": "\ufeff{\n}\n",
        ".gemini/settings.json": '{\r\n    "mcpServers": {},\r\n    "ui": {"theme": "x"}\r\n}\r\n',
        "shiftboss.yaml": "repos: {sums: {path: .}}\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text.encode())
    (folder / ".mcp.json").chmod(0o640)
    before = files(folder)
    init(folder, "--all-agents")

    servers = json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    assert list(servers) == ["zeta", "alpha", "shiftboss"]
    settings = json.loads((folder / ".claude/settings.json").read_text())
    assert list(settings) == ["permissions", "hooks", "model"]
    commands = [one["hooks"][0]["command"] for one in settings["hooks"]["PreToolUse"]]
    assert commands == ["./look.sh", hook_command("pre-tool-use")]
    rules = (folder / "AGENTS.md").read_bytes()
    assert rules.startswith(texts["AGENTS.md"].encode() + b"\r\n\r\n<!-- shiftboss:begin -->\r\n")
    assert rules.count(b"\n") == rules.count(b"\r\n")
    assert (folder / "shiftboss.yaml").read_text() == texts["shiftboss.yaml"]
    assert (folder / ".mcp.json").stat().st_mode & 0o777 == 0o640
    once = files(folder)
    assert init(folder).out == "nothing to do\n"
    assert files(folder) == once

    removed = init(folder, "--remove")
    assert files(folder) == before
    assert (
        "left shiftboss.yaml: it was changed since, or `shiftboss init` did not write it\n"
        in removed.out
    )


@pytest.mark.requirement("OWN-01")
def test_user_edits_are_left_in_place(folder: Path) -> None:
    init(folder)
    config = folder / ".mcp.json"
    own = config.read_text().replace("http://127.0.0.1:7432/mcp", "http://build-host:7432/mcp")
    config.write_text(own)
    page = folder / "AGENTS.md"
    page.write_text(
        "# Mine\n" + page.read_text().replace("Keep the tests", "Drop the tests") + "more\n"
    )
    policy = folder / "shiftboss.yaml"
    policy.write_text(policy.read_text() + "locking: chain\n")
    # An older block is updated, but a custom address is not an older block.
    assert init(folder).out == "changed AGENTS.md\n"
    assert "Keep the tests" in page.read_text()
    answer = json.loads(init(folder, "--remove", "--json").out)
    assert answer["left"] == ["shiftboss.yaml", ".mcp.json"]
    assert files(folder).keys() == {"AGENTS.md", "shiftboss.yaml", ".mcp.json"}
    assert (page.read_text(), config.read_text()) == ("# Mine\nmore\n", own)


@pytest.mark.requirement("OWN-01")
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            ".mcp.json",
            '{\n  "a": 1\n  "b": 2\n}',
            ".mcp.json:3: is not valid JSON: Expecting ',' delimiter",
        ),
        (".mcp.json", "", ".mcp.json:1: is not valid JSON: "),
        (".mcp.json", '{"mcpServers": []}', ".mcp.json: mcpServers is not an object; "),
        (
            ".claude/settings.json",
            '{\n  // mine\n  "model": "x"\n}',
            (
                ".claude/settings.json:2: has comments or trailing commas; "
                'add by hand: {"hooks": {"PreToolUse": [{"matcher": "*", '
            ),
        ),
        ("AGENTS.md", "a\n<!-- shiftboss:begin -->\n", "AGENTS.md:2: must have one line "),
        ("AGENTS.md", "\udcff", "AGENTS.md is not UTF-8: "),
        (".codex/config.toml", "a = \n", ".codex/config.toml: is not valid TOML: "),
        (".claude", "", ".claude/settings.json cannot be "),
        ("AGENTS.md/x", "", "AGENTS.md is not a file; "),
    ],
)
def test_an_unchangeable_file_leaves_everything_as_it_was(
    folder: Path, name: str, text: str, message: str
) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    assert refused(folder).startswith(message)


@pytest.mark.requirement("OWN-01")
def test_links_are_followed_only_inside_the_repository(folder: Path, tmp_path: Path) -> None:
    (folder / "CLAUDE.md").write_text("# Rules\n")
    (folder / "AGENTS.md").symlink_to("CLAUDE.md")
    before = files(folder)
    init(folder)
    assert (folder / "AGENTS.md").is_symlink()
    assert (folder / "CLAUDE.md").read_text().startswith("# Rules\n\n<!-- shiftboss:begin -->\n")
    assert init(folder).out == "nothing to do\n"
    init(folder, "--remove")
    assert files(folder) == before
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / ".claude").symlink_to(elsewhere)
    assert refused(folder).startswith(
        "a link leads .claude/settings.json out of the repository, to "
    )
    assert list(elsewhere.iterdir()) == []


@pytest.mark.requirement("OWN-01")
def test_an_unwritable_folder_is_left_as_it_was(folder: Path) -> None:
    inner = folder / ".claude"
    inner.mkdir()
    before = files(folder)
    inner.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ROOT, "init"],
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    inner.chmod(0o755)
    assert done.returncode == 1, done.stdout
    message = ".claude/settings.json cannot be written: Permission denied; nothing was changed; "
    assert done.stderr.startswith(message)
    assert files(folder) == before


@pytest.mark.requirement("OWN-01")
def test_only_the_top_level_of_a_repository_is_set_up(folder: Path, tmp_path: Path) -> None:
    inner = folder / "src"
    inner.mkdir()
    assert refused(folder, "src") == f"src is not the top folder of its repository; use {folder}\n"
    assert "is not in a git repository" in refused(folder, str(tmp_path))
    assert refused(folder, "nowhere") == "there is no folder nowhere\n"
    both = shiftboss("init", "--check", "--remove", folder=folder)
    assert both.code == 2
    (tmp_path / "from-above").mkdir()
    shiftboss("init", str(folder), folder=tmp_path / "from-above")
    assert (folder / "shiftboss.yaml").exists()
    assert list((tmp_path / "from-above").iterdir()) == []


@pytest.mark.requirement("OWN-01")
def test_work_lands_on_the_main_branch_if_there_is_one(folder: Path) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=W", "-c", "user.email=w@shiftboss.invalid"]
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "base"], check=True)
    subprocess.run([*git, "checkout", "--quiet", "-b", "feature"], check=True)
    (folder / "Makefile").write_text("test:\n\ttrue\n")
    assert "+#    branch: main  # " in init(folder, "--dry-run").out
    subprocess.run([*git, "branch", "--quiet", "-m", "main", "develop"], check=True)
    assert "+#    branch: feature  # " in init(folder, "--dry-run").out


PLAN = """\
goal: Two files
repos: {sums: {path: .}}
tasks:
  - {id: one, title: One, files_owned: [src/one.js], traits: [critical_path]}
  - {id: two, title: Two, files_owned: [src/two.js]}
"""


@pytest.mark.requirement("OWN-01")
def test_after_init_tasks_of_a_node_repository_run_side_by_side(folder: Path) -> None:
    (folder / "package.json").write_text('{"scripts": {"test": "node --test"}}')
    init(folder)
    (folder / "plan.yaml").write_text(PLAN)
    shown = shiftboss("plan", "show", "plan.yaml", "--json", folder=folder)
    assert "models" in json.loads(shown.out), shown.err
    done = shiftboss("run", "--dry-run", "--json", "plan.yaml", folder=folder)
    steps = json.loads(done.out)["steps"]
    assert [(step["starts"], step["model"]) for step in steps] == [(0, None), (0, None)]
