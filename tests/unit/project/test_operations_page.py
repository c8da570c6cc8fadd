"""The operations page: its units, its commands and its links. What can be executed is, in
tests/e2e/operations."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from shiftboss.cli.main import app
from tests.e2e.operations.page import EXAMPLES, PAGE, ROOT, blocks
from tests.programs import program

UNITS = sorted(EXAMPLES.glob("*.service"))


def _command_lines() -> list[str]:
    """Those in blocks, also behind other words of their lines, and those in the text."""
    code = [block.text.replace("\\\n", " ") for block in blocks()]
    lines = [line for text in code for line in text.splitlines()]
    in_blocks = [
        match[0] for line in lines for match in re.finditer(r"(?<!-g )shiftboss [a-z].*", line)
    ]
    in_text = re.findall(r"`(shiftboss [^`\n]+)`", PAGE)
    return [re.split(r" +(?:[>#|]|\|\|)(?: |$)|\)$| \| ", line)[0] for line in in_blocks + in_text]


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize("line", sorted(set(_command_lines())))
def test_every_command_of_the_page_exists_with_its_options(line: str) -> None:
    command, (_, *words) = typer.main.get_command(app), shlex.split(line)
    while isinstance(command, TyperGroup):
        assert words[0] in command.commands, line
        command = command.commands[words.pop(0)]
    options = {name for option in command.params for name in option.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= options


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    analyze = program("systemd-analyze")
    text = unit.read_text(encoding="utf-8")
    assert "/opt/shiftboss/bin/shiftboss" in text
    copy = tmp_path / unit.name
    # It must find the program.
    copy.write_text(text.replace("/opt/shiftboss/bin/shiftboss", sys.executable))
    done = subprocess.run(
        [analyze, "verify", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, _about(done.stderr, unit.name)) == (0, [])


def _about(messages: str, unit: str) -> list[str]:
    """Other units of the machine may have mistakes of their own."""
    return [line for line in messages.splitlines() if unit in line]


def test_the_units_have_safe_defaults() -> None:
    assert [unit.name for unit in UNITS] == ["shiftboss-verifier.service", "shiftboss.service"]
    for unit in UNITS:
        lines = unit.read_text(encoding="utf-8").splitlines()
        expected = {"NoNewPrivileges=yes", "ProtectSystem=strict", "Restart=on-failure"}
        assert expected | {"ProtectHome=yes", "UMask=0077", "LimitNOFILE=65536"} <= set(lines)
        assert any(line.startswith("User=shiftboss") for line in lines)


def test_the_server_reloads_on_sighup() -> None:
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in UNITS[1].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "setting",
    ["RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc"],
)
def test_nothing_in_the_verifiers_unit_keeps_the_sandbox_from_working(setting: str) -> None:
    """They cover parts of /proc, or forbid namespaces: no new /proc can be mounted then."""
    assert f"\n{setting}=" not in UNITS[0].read_text(encoding="utf-8")


def test_the_settings_of_the_page_are_those_of_the_example() -> None:
    (block,) = [block for block in blocks() if block.language == "sh"]
    assert block.text == (EXAMPLES / "server.env").read_text(encoding="utf-8")


def test_every_block_is_executed_or_is_of_a_known_kind() -> None:
    kinds = {block.language for block in blocks()}
    assert kinds == {"bash", "sql", "yaml", "sh", "console", "nginx", "cron"}
    assert PAGE.count("```") == 2 * len(list(blocks()))


def test_the_page_is_linked() -> None:
    assert "(docs/operations.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(operations.md)" in (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE))))
def test_every_link_leads_somewhere(link: str) -> None:
    name, _, anchor = link.partition("#")
    file = ROOT / "docs" / name if name else ROOT / "docs" / "operations.md"
    assert file.exists()
    if anchor:
        text = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert anchor in {_anchor(heading) for heading in headings}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
