"""The contract of an attempt as a local file, which hooks read without asking the server.

The file carries the hash of its handoff. If the hash does not match, the file was changed, and a
hook that reads it has to refuse everything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path


FORMAT: Final = 1
VARIABLE: Final = "SHIFTBOSS_CONTRACT"
# A file in the git folder of a work tree, with the path of the contract.
POINTER: Final = "shiftboss-contract"
_POINTER_BYTES_MAX: Final = 10_000
_BYTES_MAX: Final = 10_000_000
_TEXTS: Final = ("swarm_id", "bead_id", "worker", "contract_hash", "tree", "base", "branch")
_NUMBERS: Final = ("epoch", "contract_version")
# The swarm of a tool call that does not name one.
_DEFAULT_SWARM: Final = "default"


class ContractUnreadable(Exception):
    """The file is missing or broken, or its hash does not match its contents."""


class LocalContract:
    """A hook's facts about the attempt. `members` are those of the file."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        """Raises ContractUnreadable unless everything is there and the hash matches."""
        _check(members)
        contract = members["handoff"]["contract"]
        self.members = dict(members)
        self.swarm_id: str = members["swarm_id"]
        self.bead_id: str = members["bead_id"]
        self.worker: str = members["worker"]
        self.epoch: int = members["epoch"]
        self.version: int = members["contract_version"]
        self.hash: str = members["contract_hash"]
        self.owned = _paths(contract, "files_owned")
        self.readonly = _paths(contract, "files_readonly")
        self.generated = _paths(members, "generated")
        self.tree: str = members["tree"]
        self.base: str = members["base"]
        self.branch: str = members["branch"]
        self.server_url: str | None = members.get("server_url")
        # Otherwise the orchestrator claims the work after the agent has ended.
        self.claims: bool = members.get("claims", True) is not False

    @property
    def name(self) -> str:
        """The contract, as messages call it."""
        return f"contract of task {self.bead_id}, version {self.version}, {self.hash[:12]}"

    @property
    def call_arguments(self) -> str:
        """The arguments that name the task in a call of one of our tools."""
        arguments = {} if self.swarm_id == _DEFAULT_SWARM else {"swarm_id": self.swarm_id}
        arguments["bead_id"] = self.bead_id
        return ", ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())


def read_contract(file: Path | str) -> LocalContract:
    """Raises ContractUnreadable."""
    try:
        with open(file, "rb") as opened:
            text = opened.read(_BYTES_MAX + 1)
        members = json.loads(text) if len(text) <= _BYTES_MAX else None
    except (OSError, ValueError, RecursionError) as error:
        raise ContractUnreadable(f"{file}: {error}") from error
    if not isinstance(members, dict):
        raise ContractUnreadable(f"{file}: is not a contract")
    try:
        return LocalContract(members)
    except ContractUnreadable as error:
        raise ContractUnreadable(f"{file}: {error}") from error


def write_contract(file: Path | str, members: Mapping[str, Any]) -> None:
    """Replace the file in one step, readable for its owner only. `format` may be left out. Raises
    ContractUnreadable for a contract that hooks would not accept."""
    complete = {"format": FORMAT, **members}
    LocalContract(complete)
    text = json.dumps(complete, indent=2, sort_keys=True, ensure_ascii=False).encode()
    partial = f"{file}.{os.getpid()}.part"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(descriptor)
        os.replace(partial, file)
    except OSError:
        os.unlink(partial)
        raise


def hash_of(handoff: Any) -> str:
    """The same as `protocol.handoffs.handoff_hash`, for a handoff as JSON."""
    canonical = json.dumps(
        handoff, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    try:
        # Python's own implementation: hashlib loads OpenSSL, which takes milliseconds.
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    return str(sha256(canonical.encode()).hexdigest())


def _check(members: Mapping[str, Any]) -> None:
    if members.get("format") != FORMAT:
        raise ContractUnreadable(f"format: is not {FORMAT}")
    for field in _TEXTS:
        if not isinstance(members.get(field), str) or not members[field]:
            raise ContractUnreadable(f"{field}: is not a string")
    for field in _NUMBERS:
        if type(members.get(field)) is not int:
            raise ContractUnreadable(f"{field}: is not a number")
    if not isinstance(members.get("server_url"), str | None):
        raise ContractUnreadable("server_url: is not a string")
    if not os.path.isabs(members["tree"]):
        raise ContractUnreadable("tree: is not an absolute path")
    _check_handoff(members, members.get("handoff"))


def _check_handoff(members: Mapping[str, Any], handoff: Any) -> None:
    if not isinstance(handoff, dict) or not isinstance(handoff.get("contract"), dict):
        raise ContractUnreadable("handoff: has no contract")
    try:
        is_unchanged = hash_of(handoff) == members["contract_hash"]
    except (ValueError, RecursionError) as error:  # no number, no text, too deep
        raise ContractUnreadable(f"handoff: {error}") from error
    if not is_unchanged:
        raise ContractUnreadable("contract_hash: does not match the handoff, which was changed")
    if handoff["contract"].get("task_id") != members["bead_id"]:
        raise ContractUnreadable("handoff: belongs to another task")


def _paths(holder: Mapping[str, Any], field: str) -> list[str]:
    paths = holder.get(field)
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ContractUnreadable(f"{field}: is not a list of paths")
    return paths


def contract_file(
    arguments: Sequence[str], environment: Mapping[str, str], folder: str
) -> str | None:
    """The contract that applies: that of `--contract`, else of the environment, else the one that a
    pointer in the git folder of the work tree names. None: there is no contract."""
    if "--contract" in arguments:
        at = arguments.index("--contract")
        if at + 1 >= len(arguments) or not arguments[at + 1]:
            raise ValueError("--contract: needs the path of a file")
        return arguments[at + 1]
    if environment.get(VARIABLE):
        return environment[VARIABLE]
    git_dir = environment.get("GIT_DIR") or git_folder(folder)
    return _read_pointer(git_dir) if git_dir else None


def git_folder(folder: str) -> str | None:
    """The git folder of the work tree around `folder`, found without running git."""
    parent = os.path.realpath(folder)
    while True:
        entry = f"{parent.rstrip('/')}/.git"
        if os.path.isdir(entry):
            return entry
        if os.path.isfile(entry):
            with open(entry, "rb") as opened:
                link = os.fsdecode(opened.read(_POINTER_BYTES_MAX)).strip()
            return os.path.join(parent, link.removeprefix("gitdir:").strip())
        if parent == "/":
            return None
        parent = os.path.dirname(parent)


def _read_pointer(git_dir: str) -> str | None:
    try:
        with open(f"{git_dir}/{POINTER}", "rb") as opened:
            path = os.fsdecode(opened.read(_POINTER_BYTES_MAX)).rstrip("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return path or None
