"""Programs of this machine, asked briefly."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.agents.agent import Agent
from shiftboss.agents.registry import AGENTS, DEFAULT_AGENT, brands
from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.system.child_process import kill_group, start_process

ANSWER_SECONDS: Final = 20.0


class ProgramOutput(NamedTuple):
    code: int
    out: str


async def said_by(*argv: str, folder: Path | None = None) -> ProgramOutput | None:
    """What a program wrote, and its exit code. None: it is not installed, or does not end."""
    program = shutil.which(argv[0])
    if program is None:
        return None
    process = await start_process(
        (program, *argv[1:]),
        kill_group,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        process_group=0,
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        await kill_group(process)
    return ProgramOutput(process.returncode or 0, out.decode(errors="replace"))


# Coding agents on the PATH.


def check_agents() -> list[Finding]:
    return judge_agents([agent for agent in brands() if shutil.which(agent.program)])


def judge_agents(installed: Collection[Agent]) -> list[Finding]:
    if installed:
        return [ok("agents", f"on the PATH: {', '.join(agent.program for agent in installed)}")]
    programs = ", ".join(agent.program for agent in brands())
    default = AGENTS[DEFAULT_AGENT].install_command
    return [
        warning(
            "agents",
            f"none of the coding agents is on the PATH: {programs}",
            f"install one, for example: {default}; or connect workers of your own to the server",
        )
    ]


# The runners of a Forgejo on this machine: systemd units `forgejo-runner-*`.


UNITS: Final = "forgejo-runner-*"


async def look_at_runners() -> list[Finding]:
    names = await _names()
    if not names:
        return [
            ok("runners", "there are no forgejo-runner units here; runners elsewhere are not seen")
        ]
    said = await said_by("systemctl", "is-active", *names)
    states = dict(zip(names, said.out.split(), strict=False)) if said is not None else {}
    log = await said_by("journalctl", "--no-pager", "--unit", UNITS, "--since", "5 minutes ago")
    return judge_runners(states, log.out if log is not None else "")


async def _names() -> list[str]:
    """Installed ones, and those that are known by an instance alone. Exit codes say nothing here;
    a machine without systemd lists none."""
    found: set[str] = set()
    for listing in (("list-unit-files",), ("list-units", "--all")):
        said = await said_by("systemctl", *listing, "--no-legend", "--no-pager", "--plain", UNITS)
        lines = said.out.splitlines() if said is not None else []
        names = (line.split()[0] for line in lines if line.strip())
        found |= {name for name in names if name.endswith(".service") and "@." not in name}
    return sorted(found)


def judge_runners(states: Mapping[str, str], log: str) -> list[Finding]:
    """`states` as systemctl says them, `log` of the last minutes."""
    findings = [
        problem(
            "runners",
            f"{unit} is offline ({state}): nothing that waits for it will run",
            f"restart it: sudo systemctl restart {unit}; its log: journalctl -u {unit} --no-pager "
            "-n 50",
        )
        for unit, state in states.items()
        if state not in ("active", "activating", "reloading")
    ]
    if "502 Bad Gateway" in log:
        findings.append(
            warning(
                "runners",
                "runners got 502 Bad Gateway in the last 5 minutes: the forge was restarted",
                "wait for the forge to stabilise, runners reconnect by themselves; it is over when "
                "journalctl -u forgejo-runner-1 tells of a new `task ... repo is`",
            )
        )
    return findings or [ok("runners", f"all {len(states)} are online")]
