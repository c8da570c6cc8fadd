"""The two ways to start on a plan, `run` and `land`: open a server, build the context, go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from shiftboss.agents.registry import AGENTS
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Servers
from shiftboss.defaults import DATABASE_FILE, STATE_FOLDER
from shiftboss.errors import InvalidRequest
from shiftboss.evidence.survey.policy_file import load_policy
from shiftboss.orchestrator.guardian.agent_process import ProcessLimits
from shiftboss.orchestrator.landing.landing_queue import LandingQueue
from shiftboss.orchestrator.landing.work_landing import WorkLanding
from shiftboss.orchestrator.run.held_out_files import read_held_out
from shiftboss.orchestrator.run.plan_branches import PlanBranches
from shiftboss.orchestrator.run.plan_run import RunOutcome, landing_outcome, run_to_completion
from shiftboss.orchestrator.run.plan_status import read_plan_status
from shiftboss.orchestrator.run.progress import Progress, RunLog
from shiftboss.orchestrator.run.run_context import RunContext, RunPaths
from shiftboss.orchestrator.run.run_server import server_for_run
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.orchestrator.run.server_process import ServerOptions
from shiftboss.orchestrator.worktrees.worktree_folder import WorktreeFolder
from shiftboss.protocol.plan import Plan
from shiftboss.rules.tasks.waiting import HERE, CommandPlace
from shiftboss.system.log_subject import about
from shiftboss.system.state_folder import make_private_folder, make_state_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`server` is the one that the user has named: see `ServerOptions`. The folder of the database
    also holds the state of the run. `trees` is the folder for the work trees. `plan_file` is noted
    in the folder of the run, for people. `commands_look` is where the commands that the run prints
    have to look, if neither the folder nor `server` leads to all that they need."""

    plan: Plan
    server: Server | Servers | None
    database: str
    policy: Path | None = None
    trees: Path | None = None
    own_server: bool = False
    retry: bool = False
    token: str | None = field(default=None, repr=False)
    plan_file: Path | None = None
    wait: bool = True
    # How the log of a server that the run starts is written.
    log_options: Sequence[str] = ()
    operator_token: str | None = field(default=None, repr=False)
    commands_look: CommandPlace | None = None

    @property
    def state(self) -> Path:
        return state_of(self.database)

    @property
    def swarm_id(self) -> str:
        assert self.plan.swarm is not None, "load_plan sets the swarm"
        return self.plan.swarm


def state_of(database: str) -> Path:
    """The state folder that belongs to a database."""
    if "://" in database:
        return Path(STATE_FOLDER).absolute()
    return Path(database).absolute().parent


async def run_plan(options: RunOptions, progress: Progress) -> RunOutcome:
    """Run the whole plan. The caller has made the preflight."""
    with about(options.swarm_id):
        async with _open_run(options, progress) as run:
            return await run_to_completion(run, retry=options.retry, wait=options.wait)


async def land_plan(options: RunOptions, tasks: Collection[str], progress: Progress) -> RunOutcome:
    """Land the work that is already accepted, in order. Starts no task and no agent."""
    async with _open_run(options, progress) as run:
        unknown = [bead_id for bead_id in tasks if not run.knows(bead_id)]
        if unknown:
            raise InvalidRequest(f"the plan has no task {unknown[0]}", field="tasks")
        work_landing = WorkLanding(run.paths.landing, run.paths.state)
        landing_queue = LandingQueue(run, work_landing, only=frozenset(tasks))
        try:
            with run.paths.lock("land"):
                while await landing_queue.land_all(await read_plan_status(run)):
                    pass
            return landing_outcome(run, landing_queue, await read_plan_status(run), tasks)
        finally:
            await landing_queue.close()


def _log_progress(bead_id: str, text: str) -> None:
    """For programs that collect logs; people read run.log."""
    log.info("%s", text, extra={"facts": {"task": bead_id} if bead_id else {}})


def command_place(server: str | None, database: str, address: str, folder: Path) -> CommandPlace:
    """Where commands that are typed in the folder find the run: `server` and `database` are what it
    was started with, `address` is its server."""
    if server is not None:
        return CommandPlace(server=server)
    if "://" in database:  # which may contain a password
        return CommandPlace(server=address)
    file = (folder / database).resolve()
    usual = (above / STATE_FOLDER / DATABASE_FILE for above in (folder, *folder.parents))
    is_found = any(file == path.resolve() for path in usual)
    return HERE if is_found else CommandPlace(database=str(file))


def _forge_secrets(policy_file: Path | None) -> frozenset[str]:
    """The variables with the tokens and webhook secrets of forges."""
    if policy_file is None:
        return frozenset()
    policies = [repo.ci for repo in load_policy(policy_file).repos.values()]
    names = {name for ci in policies for name in (ci.token_variable, ci.webhook_secret_variable)}
    return frozenset(name for name in names if name is not None)


async def _tell_page(client: RunServerClient, progress: Progress, place: CommandPlace) -> None:
    """The link goes to the terminal of the person alone; a log tells how to get one."""
    link = await client.login_link() if progress.on_login_link is not None else None
    if link is not None and progress.on_login_link is not None:
        progress.on_login_link(link)
    else:
        progress.log("", f"page: {place.render(f'shiftboss open {client.swarm_id}')}")


@asynccontextmanager
async def _open_run(options: RunOptions, progress: Progress) -> AsyncIterator[RunContext]:
    swarm_id = options.swarm_id
    paths = RunPaths.of(options.state, swarm_id, options.trees)
    held_out = await asyncio.to_thread(read_held_out, options.plan)
    forge_secrets = await asyncio.to_thread(_forge_secrets, options.policy)
    make_state_folder(options.state)
    make_private_folder(paths.folder)
    progress.listeners += [RunLog(paths.folder), _log_progress]
    server_options = ServerOptions(
        options.server,
        options.database,
        options.state,
        paths.folder / "server.log",
        policy=options.policy,
        own=options.own_server,
        token=options.token,
        operator_token=options.operator_token,
        log_options=options.log_options,
    )
    async with (
        server_for_run(server_options, progress) as run_server,
        RunServerClient(
            run_server.server, swarm_id, run_server.operator_token, partial(progress.log, "")
        ) as client,
    ):
        progress.log("", f"swarm {swarm_id} at {run_server.server.addresses}")
        place = options.commands_look or command_place(
            None if options.server is None else str(run_server.server.addresses),
            options.database,
            run_server.server.address,
            Path.cwd(),
        )
        await _tell_page(client, progress, place)
        yield RunContext(
            plan=options.plan,
            paths=paths,
            worktrees=WorktreeFolder(paths.trees),
            branches=PlanBranches(),
            client=client,
            progress=progress,
            agents=AGENTS,
            limits=ProcessLimits(),
            plan_file=options.plan_file,
            held_out=held_out,
            forge_secrets=forge_secrets,
            command_place=place,
        )
