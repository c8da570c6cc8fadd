"""shiftboss clean: shows and removes what ended runs have left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.common.attempts import state_folder
from shiftboss.cli.common.client import NoServer, RequestRefused
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.pages import bus_pages, join_pages
from shiftboss.errors import Conflict, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.leftovers import Kept, Leftover

Tasks = dict[str, dict[str, Any]]


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

    That is: work trees, branches, saved work, and the folders with logs. Nothing of a run that is
    alive is listed, and accepted work that has not landed always stays.

    \b
    Example:
      shiftboss clean
      shiftboss clean --apply
    """
    from shiftboss.orchestrator.run.leftovers import ended_runs

    state = state_folder()
    notes: list[str] = []
    found: list[Leftover] = []
    kept: list[Kept] = []
    for swarm_id in ended_runs(state):
        leftovers, staying = asyncio.run(
            _find(state, swarm_id, _tasks(session, swarm_id, notes), everything)
        )
        found += leftovers
        kept += staying
    if apply:
        return _removed(asyncio.run(_remove(state, found)), kept, notes)
    return Output.of(
        {"leftovers": [each.as_json() for each in found], "kept": _kept_json(kept)},
        lambda: _show_found(found, kept, everything=everything),
        notes=notes,
    )


def _tasks(session: ServerSession, swarm_id: str, notes: list[str]) -> Tasks:
    """The tasks of a swarm by their id. Without a server all of them count as unfinished."""
    try:
        pages = bus_pages(session.client, "list_tasks", swarm_id, None)
    except (NoServer, RequestRefused) as error:
        notes.append(f"{swarm_id}: its tasks count as unfinished, because {error.detail}")
        return {}
    return {task["bead_id"]: task for task in join_pages(pages, "tasks")["tasks"]}


async def _find(
    state: Path, swarm_id: str, tasks: Tasks, everything: bool
) -> tuple[list[Leftover], list[Kept]]:
    from shiftboss.orchestrator.run.leftovers import find_leftovers

    return await find_leftovers(state, swarm_id, tasks, everything=everything)


async def _remove(state: Path, found: list[Leftover]) -> list[tuple[Leftover, str | None]]:
    from shiftboss.orchestrator.run.leftovers import remove_leftovers

    results: list[tuple[Leftover, str | None]] = []
    for swarm_id in dict.fromkeys(each.swarm_id for each in found):
        own = [each for each in found if each.swarm_id == swarm_id]
        try:
            results += await remove_leftovers(state, swarm_id, own)
        except Conflict as error:  # a run has started in the meantime
            results += [(each, error.detail) for each in own]
    return results


def _removed(
    results: list[tuple[Leftover, str | None]], kept: list[Kept], notes: list[str]
) -> Output:
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
