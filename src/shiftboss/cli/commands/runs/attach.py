"""shiftboss attach: continue the session of an agent that has ended, by hand."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shiftboss.cli.common.attempts import AttemptNumber, find_attempt, state_folder
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.options import TaskId, TaskSwarm
from shiftboss.cli.common.output import is_terminal, print_line
from shiftboss.errors import ShiftbossError
from shiftboss.system.state_folder import refuse_tracked

if TYPE_CHECKING:
    from shiftboss.agents.agent import ResumeCommand
    from shiftboss.orchestrator.attempt.attempt_record import AttemptRecord


_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class CannotAttach(ShiftbossError):
    code = "cannot_attach"
    title = "The agent cannot be attached to"


@json_command("Print the command, its folder and its variables as JSON; run nothing.")
def attach(task_id: TaskId, attempt: AttemptNumber = None, swarm: TaskSwarm = None) -> Output:
    """Continue the session of a task's agent by hand, in its work tree.

    Agents work without a terminal: while one works, follow it with `shiftboss logs TASK -f`. When
    it has ended, Claude Code and opencode can continue its session. Without a terminal, the command
    is only printed. The agent is the one on your PATH, even if the plan names another command. The
    next run saves what you leave in the work tree.

    \b
    Example:
      shiftboss attach login-form
    """
    record = find_attempt(task_id, swarm, attempt)
    refuse_tracked(state_folder())
    command = _resume_command(record)
    folder = asyncio.run(_open_tree(record))
    document = {
        "argv": command.argv,
        "folder": str(folder),
        "variables": dict(command.variables),
    }
    return Output.of(document, lambda: _run(command, folder))


def _resume_command(record: AttemptRecord) -> ResumeCommand:
    from shiftboss.agents.registry import AGENTS

    settings = record.settings
    agent = AGENTS[settings.kind]
    logs = f"shiftboss logs {record.bead_id} --swarm {record.swarm_id}"
    if record.is_live:
        raise CannotAttach(
            f"the agent of {record.bead_id} is working without a terminal (attempt {record.epoch})",
            hint=f"follow it: {logs} -f",
        )
    if agent.why_no_resume:
        raise CannotAttach(
            f"a session of {settings.kind} cannot be continued: {agent.why_no_resume}",
            hint=f"see what it printed: {logs}",
        )
    session = _session(record)
    if session is None:
        raise CannotAttach(
            f"the output of attempt {record.epoch} names no session: {record.output}",
            hint=f"see what it printed: {logs}",
        )
    # Not the command of the record: what is executed here must not come from a file that others,
    # such as agents, can write.
    own = settings.model_copy(update={"command": []})
    return agent.resume(own, session, record.folder)


def _session(record: AttemptRecord) -> str | None:
    """The session of the last round. Agents print what they like, and it becomes an argument."""
    from shiftboss.agents.registry import AGENTS
    from shiftboss.orchestrator.attempt.log_tail import LogTail

    agent, session = AGENTS[record.settings.kind], None
    with LogTail(record.output) as output:
        for line in output.new_lines(to_end=True):
            found = agent.session_of(line)
            session = found if found is not None and _SESSION.fullmatch(found) else session
    return session


async def _open_tree(record: AttemptRecord) -> Path:
    from shiftboss.orchestrator.worktrees.reopening import reopen_worktree

    return await reopen_worktree(
        Path(record.facts["repo"]),
        Path(record.facts["tree"]),
        record.facts["branch"],
        record.bead_id,
        record.facts["base"],
    )


def _run(command: ResumeCommand, folder: Path) -> None:
    """Replaces this process by the agent."""
    variables = [f"{name}={value}" for name, value in command.variables.items()]
    line = shlex.join([*(["env", *variables] if variables else []), *command.argv])
    print_line(f"cd {shlex.quote(str(folder))} && {line}")
    if not (is_terminal() and sys.stdin.isatty()):
        return
    os.chdir(folder)
    try:
        os.execvpe(command.argv[0], command.argv, {**os.environ, **command.variables})  # noqa: S606
    except OSError as error:
        raise CannotAttach(
            f"cannot start {command.argv[0]}: {error.strerror}", hint="is it on the PATH?"
        ) from error
