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
    from shiftboss.attempts.records import AttemptRecord


_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


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
    from shiftboss.protocol.plan import PlanAgent

    kind = record.settings.kind
    agent = AGENTS.get(kind, AGENTS["command"])  # of an agent that is gone since
    logs = f"shiftboss logs {record.bead_id} --swarm {record.swarm_id}"
    if record.is_live:
        raise CannotAttach(
            f"the agent of {record.bead_id} works without a terminal (attempt {record.epoch})",
            hint=f"follow it: {logs} -f",
        )
    if agent.why_no_resume:
        raise CannotAttach(
            f"a session of {kind} cannot be continued: {agent.why_no_resume}",
            hint=f"see what it printed: {logs}",
        )
    session = _session(record)
    if session is None:
        raise CannotAttach(
            f"the output of attempt {record.epoch} names no session: {record.output}",
            hint=f"see what it printed: {logs}",
        )
    # Only the kind: the command must not come from a file that others, such as agents, can write.
    return agent.resume(PlanAgent(kind=kind), session, record.folder)


def _session(record: AttemptRecord) -> str | None:
    """The session of the last round. Agents print what they like, and it becomes an argument."""
    from shiftboss.agents.registry import AGENTS
    from shiftboss.attempts.log_tail import LogTail

    agent, session = AGENTS.get(record.settings.kind, AGENTS["command"]), None
    with LogTail(record.output) as output:
        for line in output.new_lines(to_end=True):
            session_id = agent.session_of(line)
            session = (
                session_id if session_id is not None and _SESSION.fullmatch(session_id) else session
            )
    return session


async def _open_tree(record: AttemptRecord) -> Path:
    from shiftboss.orchestrator.worktrees.worktree_folder import reopen_worktree

    facts = record.facts
    if not _is_credible(record):
        raise CannotAttach(
            f"{record.folder}/attempt.json does not say where the agent worked, or was changed",
            hint=f"see its work: shiftboss diff {record.bead_id} --swarm {record.swarm_id}",
        )
    return await reopen_worktree(
        Path(facts["repo"]), Path(facts["tree"]), facts["branch"], record.bead_id, facts["base"]
    )


def _is_credible(record: AttemptRecord) -> bool:
    """Whether a run can have written these facts. They become arguments of git, and the folder in
    which the agent starts."""
    from shiftboss.rules.paths.branch_names import is_branch_name

    repo, tree, branch, base = (
        record.facts.get(name, "") for name in ("repo", "tree", "branch", "base")
    )
    name = f"{record.bead_id}.{record.epoch}"
    is_absolute = all(path.startswith("/") and "\0" not in path for path in (repo, tree))
    is_place = Path(tree).parts[-2:] == (record.swarm_id, name)
    is_work = is_branch_name(branch) and _COMMIT.fullmatch(base) is not None
    return is_absolute and is_place and is_work and not Path(tree).is_symlink()


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
