"""Reading checkpoints, and removing those of a swarm that is complete."""

from __future__ import annotations

import logging
import stat
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shiftboss.protocol.fields import PacketId, PacketName, TasksCompleted
from shiftboss.protocol.packets import RegisterRequest, checkpoint_path
from shiftboss.system.file_locks import LockHeldError
from shiftboss.system.files import read_if_there, remove_durably
from shiftboss.worker.outbox import Outbox, outbox_path

log = logging.getLogger(__name__)


class Checkpoint(BaseModel):
    """What every checkpoint says, whatever else is in it."""

    model_config = ConfigDict(strict=True, frozen=True)

    event: Literal["registered", "progress", "complete", "error"]
    packet_id: PacketId
    packet_name: PacketName
    tasks_completed: TasksCompleted


class DamagedCheckpointError(Exception):
    pass


def read_checkpoint(packet: RegisterRequest) -> Checkpoint | None:
    """None when there is none. Raises DamagedCheckpointError."""
    path = checkpoint_path(packet.worktree, packet.packet_id, packet.packet_name)
    try:
        content = read_if_there(path)
        if content is None:
            return None
        found = Checkpoint.model_validate_json(content)
    except (OSError, ValidationError) as error:
        raise DamagedCheckpointError(f"{path} is damaged") from error
    if (found.packet_id, found.packet_name) != (packet.packet_id, packet.packet_name):
        raise DamagedCheckpointError(f"{path} is about packet {found.packet_id}")
    if found.tasks_completed > packet.tasks_total:
        raise DamagedCheckpointError(f"{path} counts more than {packet.tasks_total} tasks")
    return found


def remove_checkpoints(status: Mapping[str, Any]) -> list[Path]:
    """Remove the checkpoints that the workers of a complete swarm left on this machine.

    `status` is the server's answer. Nothing happens while the swarm is not complete, and a file
    stays when it does not tell of the completion of its packet. Returns what was removed.
    """
    if status.get("status") != "complete":
        return []
    packets = (_packet_of(worker) for worker in status["workers"])
    return [path for packet in packets if packet and (path := _remove(packet, finished=True))]


def remove_own_checkpoint(packet: RegisterRequest, status: Mapping[str, Any]) -> bool:
    """Remove the checkpoint of one packet, whatever it tells of, once its swarm is complete."""
    if status.get("status") != "complete":
        return False
    _remove(packet, finished=False)
    return True


def _packet_of(worker: Mapping[str, Any]) -> RegisterRequest | None:
    try:
        return RegisterRequest.model_validate(
            {name: worker.get(name) for name in RegisterRequest.model_fields}
        )
    except ValidationError:
        return None


def _remove(packet: RegisterRequest, *, finished: bool) -> Path | None:
    path = checkpoint_path(packet.worktree, packet.packet_id, packet.packet_name)
    outbox = Outbox(outbox_path(packet.worktree, packet.packet_id, packet.packet_name))
    removed = None
    try:
        if _lies_in_its_folder(path):
            with outbox.writing() if outbox.folder.is_dir() else nullcontext():
                if not finished or _tells_of_completion(packet):
                    remove_durably(path)
                    removed = path
        outbox.remove_if_empty()
    except (OSError, LockHeldError) as error:
        log.warning("could not clean up after packet %s: %s", packet.packet_id, error)
    return removed


def _tells_of_completion(packet: RegisterRequest) -> bool:
    try:
        found = read_checkpoint(packet)
    except DamagedCheckpointError:
        return False
    return found is not None and found.event == "complete"


def _lies_in_its_folder(path: Path) -> bool:
    """A plain file in plain folders: no link leads out of the worktree."""
    try:
        return (
            stat.S_ISREG(path.lstat().st_mode)
            and stat.S_ISDIR(path.parent.lstat().st_mode)
            and stat.S_ISDIR(path.parent.parent.lstat().st_mode)
        )
    except (FileNotFoundError, NotADirectoryError):
        return False
