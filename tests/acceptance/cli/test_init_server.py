"""`shiftboss init --server`: the settings of agents for the server of a team."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli.test_init import files
from tests.commands import Done, shiftboss

pytestmark = pytest.mark.requirement("OWN-01")

URL = "https://boss.test:7443"
TOKEN = "nobody-may-commit-this"


class Setup:
    """A repository, and a home with a token in it."""

    def __init__(self, folder: Path) -> None:
        self.repo, self.home = folder / "sums", folder / "home"
        self.home.mkdir()
        subprocess.run(["git", "init", "--quiet", "-b", "main", self.repo], check=True)
        self.token = self.home / "the token"
        self.token.touch(mode=0o600)
        self.token.write_text(f"{TOKEN}\nthe-one-before\n")

    def init(self, *arguments: str) -> Done:
        return shiftboss("init", *arguments, folder=self.repo, HOME=str(self.home))

    def servers(self) -> dict[str, Any]:
        """The settings of our MCP server, by agent."""
        read = {
            name: (self.repo / name).read_text()
            for name in (".mcp.json", "opencode.json", ".gemini/settings.json")
        }
        codex = tomllib.loads((self.repo / ".codex/config.toml").read_text())
        return {
            "claude": json.loads(read[".mcp.json"])["mcpServers"]["shiftboss"],
            "codex": codex["mcp_servers"]["shiftboss"],
            "opencode": json.loads(read["opencode.json"])["mcp"]["shiftboss"],
            "gemini": json.loads(read[".gemini/settings.json"])["mcpServers"]["shiftboss"],
        }


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_all_agents_get_the_address_and_a_header_but_not_the_token(setup: Setup) -> None:
    before = files(setup.repo)
    done = setup.init("--all-agents", "--server", f"{URL}/", "--token-file", str(setup.token))
    assert done.code == 0, done.err
    servers = setup.servers()
    assert servers["claude"]["url"] == f"{URL}/mcp"
    helper = servers["claude"]["headersHelper"]
    for variables, token in (({}, TOKEN), ({"SHIFTBOSS_TOKEN": "mine"}, "mine")):
        shown = subprocess.run(
            ["/bin/sh", "-c", helper],
            env={"HOME": str(setup.home), "PATH": "/usr/bin:/bin", **variables},
            capture_output=True,
            check=True,
        )
        assert json.loads(shown.stdout) == {"Authorization": f"Bearer {token}"}
    assert servers["codex"]["url"] == f"{URL}/mcp"
    assert servers["codex"]["bearer_token_env_var"] == "SHIFTBOSS_TOKEN"
    assert servers["opencode"]["url"] == f"{URL}/mcp"
    assert servers["opencode"]["headers"] == {"Authorization": "Bearer {env:SHIFTBOSS_TOKEN}"}
    # The variable is that of a run, which these settings would override.
    assert servers["gemini"]["httpUrl"] == f"${{SHIFTBOSS_MCP_URL:-{URL}/mcp}}"
    assert servers["gemini"]["headers"] == {"Authorization": "Bearer ${SHIFTBOSS_TOKEN}"}
    assert done.err == (
        "codex, opencode, gemini: set SHIFTBOSS_TOKEN in the shell that starts them: "
        'export SHIFTBOSS_TOKEN="$(head -n 1 "$HOME"/\'the token\')"\n'
    )
    assert TOKEN not in str(files(setup.repo))

    # It stays with this server, and all of it can be removed.
    once = files(setup.repo)
    for arguments in ((), ("--check",), ("--all-agents", "--check")):
        assert setup.init(*arguments).out == "nothing to do\n"
    assert files(setup.repo) == once
    removed = json.loads(setup.init("--remove", "--json").out)
    assert removed["left"] == []
    assert files(setup.repo) == before


def test_another_server_replaces_the_settings_of_the_first(setup: Setup) -> None:
    setup.init("--all-agents")
    local = setup.servers()
    chosen = ("--server", "https://one.test,https://two.test")
    done = setup.init(*chosen)
    assert "the agents use https://one.test: an MCP client knows one address\n" in done.err
    assert setup.servers()["claude"] == {
        "type": "http",
        "url": "https://one.test/mcp",
        "headers": {"Authorization": "Bearer ${SHIFTBOSS_TOKEN:-}"},
    }
    assert setup.init(*chosen, "--check").out == "nothing to do\n"
    setup.init("--server", "http://127.0.0.1:7432")
    assert setup.servers() == local


def test_settings_that_somebody_has_changed_are_not_replaced(setup: Setup) -> None:
    setup.init()
    settings = setup.repo / ".mcp.json"
    settings.write_text(settings.read_text().replace('"http"', '"sse"'))
    before = files(setup.repo)
    refused = setup.init("--server", URL)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        ".mcp.json: mcpServers.shiftboss was changed by hand; remove it first; "
        "nothing was changed\n"
    )
    assert files(setup.repo) == before


def test_a_token_that_could_be_committed_or_read_is_refused(setup: Setup) -> None:
    inside = setup.repo / "token"
    inside.touch(mode=0o600)
    inside.write_text(TOKEN)
    for file, message in (
        (inside, f"{inside} is inside of the repository"),
        (setup.home / "none", "cannot read the token file"),
    ):
        refused = setup.init("--server", URL, "--token-file", str(file))
        assert (refused.code, refused.out) == (1, "")
        assert message in refused.err
    setup.token.chmod(0o644)
    refused = setup.init("--server", URL, "--token-file", str(setup.token))
    assert "can be read by other users" in refused.err
    assert not (setup.repo / ".mcp.json").exists()
    assert setup.init("--token-file", str(setup.token)).code == 2
    assert setup.init("--server", "boss.test").code == 1


def test_a_plugin_of_an_earlier_version_moves(setup: Setup) -> None:
    """opencode 1.0 does not start with a folder `plugins`."""
    setup.init("--agent", "opencode")
    plugin = setup.repo / ".opencode/plugin/shiftboss.js"
    former = setup.repo / ".opencode/plugins/shiftboss.js"
    former.parent.mkdir()
    plugin.rename(former)
    done = setup.init()
    assert sorted(done.out.splitlines()) == [
        "created .opencode/plugin/shiftboss.js",
        "deleted .opencode/plugins/shiftboss.js",
    ]
    assert not former.parent.exists()
