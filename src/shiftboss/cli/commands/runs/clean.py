"""shiftboss clean: shows and removes what ended runs have left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.common.attempts import state_folder
from shiftboss.cli.common.client import NoServer, RequestRefused, parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.pages import bus_pages, join_pages
from shiftboss.errors import Conflict, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.leftovers import Kept, Leftover

Tasks = dict[str, dict[str, Any]]
# With the reason why it could not be removed, or None.
Removal = tuple["Leftover", str | None]


class NotRemoved(ShiftbossError):
    code = "not_removed"
    title = "Something could not be removed"


@server_command(json_help="Print what is left, or what was removed, as JSON.")
def clean(
    session: ServerSession,
    apply: Annotated[bool, typer.Option("--apply", help="Remove what is listed.")] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Include the work of unfinished tasks. It cannot be restored."),
    ] = False,
) -> Output:
    """List what ended runs have left behind, and remove it with --apply.

    That is: work trees, branches, saved work, the folders with logs, and with --all the files that
    unfinished tasks keep reserved: these tasks are cancelled. Nothing of a run that is alive is
    listed, and accepted work that has not landed always stays.

    \b
    Example:
      shiftboss clean
      shiftboss clean --apply
    """
    cleaning = _Cleaning(session, state_folder(), everything)
    found, kept = cleaning.find()
    if apply:
        return _removed(cleaning.remove(found), kept, cleaning.notes)
    return Output.of(
        {"leftovers": [each.as_json() for each in found], "kept": _kept_json(kept)},
        lambda: _show_found(found, kept, everything=everything),
        notes=cleaning.notes,
    )


class _Cleaning:
    """`notes` are for people: what could not be looked at."""

    def __init__(self, session: ServerSession, state: Path, everything: bool) -> None:
        self._session = session
        self._state = state
        self._everything = everything
        self.notes: list[str] = []

    def find(self) -> tuple[list[Leftover], list[Kept]]:
        from shiftboss.orchestrator.run.leftovers import ended_runs, find_leftovers

        found: list[Leftover] = []
        kept: list[Kept] = []
        for swarm_id in ended_runs(self._state):
            tasks = self._tasks(swarm_id)
            finding = find_leftovers(self._state, swarm_id, tasks, everything=self._everything)
            leftovers, staying = asyncio.run(finding)
            found += self._reservations(swarm_id, tasks) + leftovers
            kept += staying
        return found, kept

    def _tasks(self, swarm_id: str) -> Tasks:
        """By their id. Without a server and its database, all of them count as unfinished."""
        try:
            pages = bus_pages(self._session.client, "list_tasks", swarm_id, None)
        except (NoServer, RequestRefused) as error:
            self.notes.append(f"{swarm_id}: its tasks count as unfinished, because {error.detail}")
            return {}
        return {task["bead_id"]: task for task in join_pages(pages, "tasks")["tasks"]}

    def _reservations(self, swarm_id: str, tasks: Tasks) -> list[Leftover]:
        if not self._everything or not tasks:
            return []
        from shiftboss.orchestrator.run.leftovers import repos_of_run, reservation

        reservations = []
        for repo in repos_of_run(self._state, swarm_id):
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

    def remove(self, found: list[Leftover]) -> list[Removal]:
        results: list[Removal] = []
        for swarm_id in dict.fromkeys(each.swarm_id for each in found):
            own = [each for each in found if each.swarm_id == swarm_id]
            results += [self._cancel(each) for each in own if each.kind == "reservation"]
            results += self._remove([each for each in own if each.kind != "reservation"], swarm_id)
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

    def _remove(self, own: list[Leftover], swarm_id: str) -> list[Removal]:
        from shiftboss.orchestrator.run.leftovers import remove_leftovers

        try:
            return asyncio.run(remove_leftovers(self._state, swarm_id, own))
        except Conflict as error:  # a run has started in the meantime
            return [(each, error.detail) for each in own]


def _removed(results: list[Removal], kept: list[Kept], notes: list[str]) -> Output:
    failed = [(each, reason) for each, reason in results if reason is not None]
    removed = [each for each, reason in results if reason is None]

    def view() -> None:
        for each in removed:
            print_line(f"removed {each.name}")
        for each, reason in failed:
            print_line(f"stays   {each.name}: {reason}")
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
        NotRemoved(f"{len(failed)} of {len(results)} could not be removed") if failed else None,
        notes,
    )


def _show_found(found: list[Leftover], kept: list[Kept], *, everything: bool) -> None:
    if found:
        from shiftboss.cli.views.leftovers import leftovers_table, size_text

        show(leftovers_table(found))
        option = " --all" if everything else ""
        total = size_text(sum(each.size for each in found))
        print_line(f"{total}; nothing was removed yet: shiftboss clean{option} --apply")
    else:
        print_line("nothing to clean")
    _show_kept(kept)


def _show_kept(kept: list[Kept]) -> None:
    for each in kept:
        print_line(f"stays: {each.bead_id} of {each.swarm_id}, {each.why}: {each.command}")


def _kept_json(kept: list[Kept]) -> list[dict[str, str]]:
    return [{"swarm_id": each.swarm_id, "bead_id": each.bead_id, "why": each.why} for each in kept]
