"""Reading checkpoints, and removing those of a complete swarm."""

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
    """The members that every checkpoint has."""

    model_config = ConfigDict(strict=True, frozen=True)

    event: Literal["registered", "progress", "complete", "error"]
    packet_id: PacketId
    packet_name: PacketName
    tasks_completed: TasksCompleted


class DamagedCheckpointError(Exception):
    pass


def read_checkpoint(packet: RegisterRequest) -> Checkpoint | None:
    """None if there is no file. Raises DamagedCheckpointError."""
    path = checkpoint_path(packet.worktree, packet.packet_id, packet.packet_name)
    try:
        content = read_if_there(path)
        if content is None:
            return None
        checkpoint = Checkpoint.model_validate_json(content)
    except (OSError, ValidationError) as error:
        raise DamagedCheckpointError(f"{path} is damaged") from error
    if (checkpoint.packet_id, checkpoint.packet_name) != (packet.packet_id, packet.packet_name):
        raise DamagedCheckpointError(f"{path} is about packet {checkpoint.packet_id}")
    if checkpoint.tasks_completed > packet.tasks_total:
        raise DamagedCheckpointError(f"{path} counts more than {packet.tasks_total} tasks")
    return checkpoint


def remove_checkpoints(status: Mapping[str, Any]) -> list[Path]:
    """Remove the checkpoints that the workers of a complete swarm left on this machine.

    `status` is the server's answer. Nothing is removed while the swarm is not complete, and a
    checkpoint stays if it does not say that its packet is complete. Returns the removed files.
    """
    if status.get("status") != "complete":
        return []
    packets = (_packet_of(worker) for worker in status["workers"])
    return [path for packet in packets if packet and (path := _remove(packet, only_complete=True))]


def remove_own_checkpoint(packet: RegisterRequest, status: Mapping[str, Any]) -> bool:
    """Remove the checkpoint of one packet if its swarm is complete. Returns whether it is."""
    if status.get("status") != "complete":
        return False
    _remove(packet, only_complete=False)
    return True


def _packet_of(worker: Mapping[str, Any]) -> RegisterRequest | None:
    try:
        return RegisterRequest.model_validate(
            {name: worker.get(name) for name in RegisterRequest.model_fields}
        )
    except ValidationError:
        return None


def _remove(packet: RegisterRequest, *, only_complete: bool) -> Path | None:
    path = checkpoint_path(packet.worktree, packet.packet_id, packet.packet_name)
    outbox = Outbox(outbox_path(packet.worktree, packet.packet_id, packet.packet_name))
    removed = None
    try:
        if _is_regular_file(path):
            with outbox.writing() if outbox.folder.is_dir() else nullcontext():
                if not only_complete or _says_complete(packet):
                    remove_durably(path)
                    removed = path
        outbox.remove_if_empty()
    except (OSError, LockHeldError) as error:
        log.warning("could not clean up after packet %s: %s", packet.packet_id, error)
    return removed


def _says_complete(packet: RegisterRequest) -> bool:
    try:
        checkpoint = read_checkpoint(packet)
    except DamagedCheckpointError:
        return False
    return checkpoint is not None and checkpoint.event == "complete"


def _is_regular_file(path: Path) -> bool:
    """A regular file in real folders: no link leads out of the worktree."""
    try:
        return (
            stat.S_ISREG(path.lstat().st_mode)
            and stat.S_ISDIR(path.parent.lstat().st_mode)
            and stat.S_ISDIR(path.parent.parent.lstat().st_mode)
        )
    except (FileNotFoundError, NotADirectoryError):
        return False
