"""Programs on this machine: coding agents, and the runners of a Forgejo."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.agents.agent import Agent
from shiftboss.agents.registry import AGENTS, brands
from shiftboss.defaults import DEFAULT_AGENT
from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.rules.documents.wording import pluralize
from shiftboss.system.processes.child_process import kill_group, start_process

ANSWER_SECONDS: Final = 20.0
# The systemd units of the runners of a Forgejo.
RUNNER_UNITS: Final = "forgejo-runner-*"


class ProgramOutput(NamedTuple):
    code: int
    out: str


async def run_program(*argv: str, folder: Path | None = None) -> ProgramOutput | None:
    """Run a program. None: it is not installed, or did not end in time."""
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


async def check_runners() -> list[Finding]:
    names = await _runner_units()
    if not names:
        return [
            ok("runners", "no forgejo-runner units on this machine; other machines are not checked")
        ]
    active = await run_program("systemctl", "is-active", *names)
    states = dict(zip(names, active.out.split(), strict=False)) if active is not None else {}
    log = await run_program(
        "journalctl", "--no-pager", "--unit", RUNNER_UNITS, "--since", "5 minutes ago"
    )
    return judge_runners(states, log.out if log is not None else "")


async def _runner_units() -> list[str]:
    """Installed units, and instances of templates. Exit codes have no meaning here; without systemd
    there are none."""
    units: set[str] = set()
    for listing in (("list-unit-files",), ("list-units", "--all")):
        listed = await run_program(
            "systemctl", *listing, "--no-legend", "--no-pager", "--plain", RUNNER_UNITS
        )
        lines = listed.out.splitlines() if listed is not None else []
        names = (line.split()[0] for line in lines if line.strip())
        units |= {name for name in names if name.endswith(".service") and "@." not in name}
    return sorted(units)


def judge_runners(states: Mapping[str, str], log: str) -> list[Finding]:
    """`states` are those of systemctl, `log` is that of the last minutes."""
    findings = [
        problem(
            "runners",
            f"{unit} is offline ({state}): jobs that wait for it will not run",
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
                "wait for the forge to stabilise: runners reconnect by themselves. It is over when "
                "journalctl -u forgejo-runner-1 shows a new `task ... repo is`",
            )
        )
    return findings or [ok("runners", f"online: {pluralize(len(states), 'runner')}")]
