"""shiftboss clean: shows and removes what ended runs have left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.common.attempts import state_folder
from shiftboss.cli.common.client import NoServer, RequestRefused, parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.pages import bus_pages, join_pages, swarm_pages
from shiftboss.errors import Conflict, ShiftbossError, UnknownSwarm
from shiftboss.rules.documents.wording import pluralize
from shiftboss.system.state_folder import BadStateFolder
from shiftboss.system.token_files import BadToken

if TYPE_CHECKING:
    from shiftboss.orchestrator.leftovers.items import KeptWork, Leftover, WorkLocation
    from shiftboss.orchestrator.leftovers.refs import RefHolder

Tasks = dict[str, dict[str, Any]]
# None: they could not be read.
TasksByRun = dict[str, Tasks | None]
WorkLocations = dict[str, "WorkLocation"]
# With the reason why it could not be removed, or None.
Removal = tuple["Leftover", str | None]


class NotRemoved(ShiftbossError):
    code = "not_removed"
    title = "Something could not be removed"


@server_command(json_help="Print what is left, or what was removed, as JSON.", operator=True)
def clean(
    session: ServerSession,
    apply: Annotated[bool, typer.Option("--apply", help="Remove what is listed.")] = False,
    include_unfinished: Annotated[
        bool,
        typer.Option("--all", help="Include the work of unfinished tasks. It cannot be restored."),
    ] = False,
) -> Output:
    """List what ended runs have left behind, and remove it with --apply.

    Lists work trees, branches, saved work and log folders. With --all, also the files that
    unfinished tasks keep reserved (these tasks are cancelled), the verified commits of squashed
    work, which receipts name, and complete swarms (their tasks and events are deleted from the
    database, and their receipts stay). Nothing of a run that is alive is listed. Accepted work
    that has not landed always stays.

    \b
    Example:
      shiftboss clean
      shiftboss clean --apply
    """
    cleaning = _Cleaning(session, state_folder(), include_unfinished)
    leftovers, kept = cleaning.find()
    if apply:
        return _removed(cleaning.remove(leftovers), kept, cleaning)
    return Output.of(
        {"leftovers": [each.as_json() for each in leftovers], "kept": _kept_json(kept)},
        lambda: _show_found(leftovers, kept, include_unfinished=include_unfinished),
        cleaning.error,
        cleaning.notes,
    )


class CannotTell(ShiftbossError):
    code = "cannot_tell"
    title = "It is not known which work is accepted"


class _Cleaning:
    """`notes` tell people which facts could not be checked. `unknown` are the swarms whose tasks
    could not be read, with the reasons: with --all, nothing of them is removed."""

    def __init__(self, session: ServerSession, state: Path, include_unfinished: bool) -> None:
        self._session = session
        self._state = state
        self._include_unfinished = include_unfinished
        self.notes: list[str] = []
        self.unknown: dict[str, str] = {}

    def find(self) -> tuple[list[Leftover], list[KeptWork]]:
        from shiftboss.orchestrator.leftovers.leftovers import list_runs

        runs = list_runs(self._state)
        tasks = {swarm_id: self._tasks(swarm_id) for swarm_id in runs}
        contracts = {swarm_id: self._contracts(swarm_id, tasks[swarm_id]) for swarm_id in runs}
        holders = asyncio.run(self._holders(runs, tasks, contracts))
        leftovers: list[Leftover] = []
        kept: list[KeptWork] = []
        for swarm_id, is_live in runs.items():
            if is_live or (self._include_unfinished and tasks[swarm_id] is None):
                continue
            of_run, staying = self._find_in_run(
                swarm_id, tasks[swarm_id] or {}, contracts[swarm_id], holders
            )
            leftovers += of_run
            kept += staying
        squashed = self._squashed(runs, tasks, contracts)
        return _once([*leftovers, *squashed, *self._complete_swarms(runs)]), kept

    def _contracts(self, swarm_id: str, tasks: Tasks | None) -> WorkLocations:
        """Of the tasks that agents have worked on. Asked of the server, and never read from files
        that agents can write: branches are deleted by them."""
        from shiftboss.attempts.records import attempts_of_run
        from shiftboss.orchestrator.leftovers.items import WorkLocation

        contracts: WorkLocations = {}
        names = {attempt.bead_id for attempt in attempts_of_run(self._state, swarm_id)}
        for bead_id in sorted(names & (tasks or {}).keys()):
            with contextlib.suppress(NoServer, RequestRefused):
                answer = self._session.call("show_handoff", swarm_id, bead_id=bead_id)
                view = parse_answer(answer, "repo")
                contracts[bead_id] = WorkLocation(
                    Path(view["repo"]), view["branch"], view["target"]
                )
        return contracts

    async def _holders(
        self, runs: Mapping[str, bool], tasks: TasksByRun, contracts: Mapping[str, WorkLocations]
    ) -> list[RefHolder]:
        from shiftboss.orchestrator.leftovers.refs import find_holders

        holders: set[RefHolder] = set()
        for swarm_id, is_live in runs.items():
            holders |= await find_holders(
                self._state, swarm_id, tasks[swarm_id], contracts[swarm_id], is_live=is_live
            )
        return sorted(holders, key=lambda holder: holder[:2])

    def _find_in_run(
        self, swarm_id: str, tasks: Tasks, contracts: WorkLocations, holders: list[RefHolder]
    ) -> tuple[list[Leftover], list[KeptWork]]:
        from shiftboss.orchestrator.leftovers.leftovers import find_leftovers

        leftovers, staying = asyncio.run(
            find_leftovers(
                self._state,
                swarm_id,
                tasks,
                contracts,
                include_unfinished=self._include_unfinished,
                holders=holders,
            )
        )
        return self._reservations(swarm_id, tasks, contracts) + leftovers, staying

    def _squashed(
        self, runs: Mapping[str, bool], tasks: TasksByRun, contracts: Mapping[str, WorkLocations]
    ) -> list[Leftover]:
        """Those of swarms that are known here, and whose runs have ended."""
        from shiftboss.orchestrator.leftovers.items import outcome_of
        from shiftboss.orchestrator.leftovers.refs import find_squashed

        repos = {each.repo for of_run in contracts.values() for each in of_run.values()}
        listed = asyncio.run(find_squashed({*repos, self._state.parent}))
        known = {swarm_id: tasks for swarm_id, tasks in tasks.items() if not runs[swarm_id]}
        for swarm_id in {each.swarm_id for each in listed} - runs.keys():
            with contextlib.suppress(NoServer, RequestRefused):
                known[swarm_id] = self._read_tasks(swarm_id)
        landed = [
            each
            for each in listed
            if outcome_of((known.get(each.swarm_id) or {}).get(each.bead_id)) == "landed"
        ]
        if landed and not self._include_unfinished:
            self.notes.append(
                f"{pluralize(len(landed), 'ref')} of squashed work stay: they keep the commits "
                "that receipts name; to list them: shiftboss clean --all"
            )
            return []
        return landed

    def _complete_swarms(self, runs: Mapping[str, bool]) -> list[Leftover]:
        """Swarms of plans and of tasks, unless a run works on them. Those of packets are deleted by
        the server, after its time for keeping them."""
        from shiftboss.orchestrator.leftovers.items import Leftover

        if not self._include_unfinished:
            return []
        try:
            listing = join_pages(swarm_pages(self._session.client, None), "swarms")
        except (NoServer, RequestRefused) as error:
            if not self.unknown:  # else it is said already
                self.notes.append(f"the swarms of the database: {error.detail}")
            return []
        return [
            Leftover("swarm", swarm["swarm_id"], f"swarm {swarm['swarm_id']}", "it is complete")
            for swarm in listing["swarms"]
            if swarm["status"] == "complete"
            and swarm["bus"]["total"]
            and swarm["swarm_id"] != DEFAULT_SWARM
            and not runs.get(swarm["swarm_id"])
        ]

    def _tasks(self, swarm_id: str) -> Tasks | None:
        """By their id. None: they cannot be read."""
        try:
            return self._read_tasks(swarm_id)
        except (NoServer, RequestRefused) as error:
            if self._include_unfinished:
                self.unknown[swarm_id] = error.detail
            else:
                note = f"{swarm_id}: its tasks count as unfinished, because {error.detail}"
                self.notes.append(note)
        return None

    def _read_tasks(self, swarm_id: str) -> Tasks:
        """Raises NoServer or RequestRefused. A swarm that does not exist has no accepted work."""
        try:
            pages = bus_pages(self._session.client, "list_tasks", swarm_id, None)
            return {task["bead_id"]: task for task in join_pages(pages, "tasks")["tasks"]}
        except RequestRefused as error:
            if error.problem.get("code") != UnknownSwarm.code:
                raise
        return {}

    @property
    def error(self) -> CannotTell | None:
        if not self.unknown:
            return None
        swarms = [f"{swarm_id} ({reason})" for swarm_id, reason in self.unknown.items()]
        return CannotTell(
            f"cannot tell which work is accepted in {', '.join(swarms)}: none of it is removed",
            hint="start its server, or leave out --all",
        )

    def _reservations(
        self, swarm_id: str, tasks: Tasks, contracts: WorkLocations
    ) -> list[Leftover]:
        if not self._include_unfinished or not tasks:
            return []
        from shiftboss.orchestrator.leftovers.leftovers import reservation

        reservations = []
        for repo in sorted({str(contract.repo) for contract in contracts.values()}):
            try:
                answer = self._session.call("who_owns", swarm_id, repo=repo, files=[])
            except (NoServer, RequestRefused) as error:
                self.notes.append(f"{swarm_id}: the owners of files in {repo}: {error.detail}")
                continue
            holders = parse_answer(answer, "holders")["holders"]
            reservations += [
                reservation(swarm_id, tasks.get(holder["bead_id"]), holder) for holder in holders
            ]
        return [each for each in reservations if each is not None]

    def remove(self, leftovers: list[Leftover]) -> list[Removal]:
        results: list[Removal] = []
        for swarm_id in dict.fromkeys(each.swarm_id for each in leftovers):
            own = [each for each in leftovers if each.swarm_id == swarm_id]
            results += self._remove(own, swarm_id)
        return results

    def _cancel(self, leftover: Leftover) -> Removal:
        reason = "shiftboss clean --all"
        try:
            self._session.call(
                "cancel_task", leftover.swarm_id, bead_id=leftover.bead_id, reason=reason
            )
        except (NoServer, RequestRefused) as error:
            return leftover, error.detail
        return leftover, None

    def _delete_swarm(self, leftover: Leftover) -> Removal:
        try:
            self._session.call_as_operator("delete_swarm", leftover.swarm_id)
        except (NoServer, RequestRefused, BadToken) as error:
            return leftover, error.detail
        return leftover, None

    def _remove(self, own: list[Leftover], swarm_id: str) -> list[Removal]:
        """The lock comes first: a run that has started works on the tasks to be cancelled."""
        from shiftboss.orchestrator.leftovers.leftovers import hold_ended_run, remove_leftovers

        reservations = [each for each in own if each.kind == "reservation"]
        swarms = [each for each in own if each.kind == "swarm"]
        others = [each for each in own if each.kind not in ("reservation", "swarm")]
        try:
            with hold_ended_run(self._state, swarm_id):
                cancelled = [self._cancel(each) for each in reservations]
                removed = asyncio.run(remove_leftovers(others))
                return cancelled + removed + [self._delete_swarm(each) for each in swarms]
        except (Conflict, BadStateFolder) as error:  # such as a run that has started just now
            return [(each, error.detail) for each in own]


def _once(leftovers: list[Leftover]) -> list[Leftover]:
    """Several swarms may have worked on a task of the same name, and so have the same refs."""
    return list({(each.kind, each.repo, each.name): each for each in reversed(leftovers)}.values())[
        ::-1
    ]


def _removed(results: list[Removal], kept: list[KeptWork], cleaning: _Cleaning) -> Output:
    failed = [(each, reason) for each, reason in results if reason is not None]
    removed = [each for each, reason in results if reason is None]

    def view() -> None:
        for each in removed:
            print_line(f"removed {each.name}")
        for each, reason in failed:
            print_line(f"could not remove {each.name}: {reason}")
        if not results:
            print_line("nothing to remove")
        _show_kept(kept)

    return Output.of(
        {
            "removed": [each.as_json() for each in removed],
            "failed": [each.as_json() | {"reason": reason} for each, reason in failed],
            "kept": _kept_json(kept),
        },
        view,
        NotRemoved(f"{len(failed)} of {len(results)} could not be removed")
        if failed
        else cleaning.error,
        cleaning.notes,
    )


def _show_found(
    leftovers: list[Leftover], kept: list[KeptWork], *, include_unfinished: bool
) -> None:
    if leftovers:
        from shiftboss.cli.views.leftovers import leftovers_table, size_text

        show(leftovers_table(leftovers))
        option = " --all" if include_unfinished else ""
        total = size_text(sum(each.size for each in leftovers))
        print_line(f"{total}; nothing was removed yet: shiftboss clean{option} --apply")
    else:
        print_line("nothing to clean")
    _show_kept(kept)


def _show_kept(kept: list[KeptWork]) -> None:
    for each in kept:
        print_line(f"stays: {each.bead_id} of {each.swarm_id}, {each.why} ({each.command})")


def _kept_json(kept: list[KeptWork]) -> list[dict[str, str]]:
    return [{"swarm_id": each.swarm_id, "bead_id": each.bead_id, "why": each.why} for each in kept]
