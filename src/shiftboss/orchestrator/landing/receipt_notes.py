"""Writes the receipt of landed work into the notes of the repository, where anybody who has a
clone can check it.

The accepted commit gets a note with its receipt. A squash leaves that commit on no branch, so the
squash gets one too: the server's word that it is the squash of that commit, and the receipt.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftboss.errors import ShiftbossError, UnknownReceipt
from shiftboss.orchestrator.git.notes import NOTES_REF, add_to_notes
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.protocol.handoffs import canonical_json
from shiftboss.rules.tasks.waiting import HERE, CommandPlace, in_one_line


async def note_landing(
    client: RunServerClient, task: Mapping[str, Any], landed_as: str, place: CommandPlace = HERE
) -> str:
    """Note the receipt of a task that landed. Returns a warning if that fails, with the command
    that repairs it: the work has landed nevertheless. A task that only reads has no commit of its
    own, and gets no note."""
    bead_id, commit = task["bead_id"], task["commit"]
    if commit == task["base_commit"]:
        return ""
    squash = None
    try:
        repo = await GitRepo.at(Path(task["repo"]))
        squash = await squash_of(repo, commit, landed_as)
        exported = await client.call("export_receipt", bead_id=task["receipt_id"], landed_as=squash)
        await note_receipt(repo, exported, squash)
    except ShiftbossError as error:
        command = ["shiftboss", "receipt", "note", bead_id, "--swarm", client.swarm_id]
        command += ["--landed-as", squash] if squash is not None else []
        text = f"its receipt is not in {NOTES_REF}: {error.detail}"
        return in_one_line(text, shlex.join(command), place=place)
    return ""


async def squash_of(repo: GitRepo, commit: str, landed_as: str | None) -> str | None:
    """The commit on the target that stands for the accepted one, which may be gone. None if the
    target contains the accepted commit itself."""
    if landed_as in (None, commit):
        return None
    is_here = await repo.commit_of(commit) is not None
    return None if is_here and await repo.is_ancestor(commit, landed_as) else landed_as


async def note_receipt(repo: GitRepo, exported: Mapping[str, Any], squash: str | None) -> bool:
    """Write an answer of `export_receipt` into the notes. Returns whether they have changed. After
    a squash, the accepted commit itself may be gone."""
    commit, receipt = exported["commit"], _line(exported["receipt"])
    lines = {squash: [_line(exported["landing"]), receipt]} if squash is not None else {}
    if squash is None or await repo.commit_of(commit) is not None:
        lines[commit] = [receipt]
    return await add_to_notes(repo, lines, f"Note the receipt {exported['receipt_id']}\n")


def _line(envelope: Mapping[str, Any] | None) -> str:
    if envelope is None:
        raise UnknownReceipt("the server did not say that this is the squash of the work")
    return canonical_json(envelope).decode()
