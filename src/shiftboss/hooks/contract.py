"""The contract of an attempt as a local file, which hooks read without asking anybody.

It carries the hash of its handoff. A file whose words do not have that hash was changed by
somebody, and whoever reads it has to refuse everything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path


FORMAT: Final = 1
_BYTES_MAX: Final = 10_000_000
_TEXTS: Final = ("swarm_id", "bead_id", "worker", "contract_hash", "tree", "base", "branch")
_NUMBERS: Final = ("epoch", "contract_version")
# The one that a call means which names none.
_DEFAULT_SWARM: Final = "default"


class ContractUnreadable(Exception):
    """The file is not there, is broken, or its hash does not fit its words."""


class LocalContract:
    """What a hook knows of the attempt. `members` are those of the file."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        """Raises ContractUnreadable unless everything is there and the hash fits."""
        _check(members)
        contract = members["handoff"]["contract"]
        self.members = dict(members)
        self.swarm_id: str = members["swarm_id"]
        self.bead_id: str = members["bead_id"]
        self.worker: str = members["worker"]
        self.epoch: int = members["epoch"]
        self.version: int = members["contract_version"]
        self.hash: str = members["contract_hash"]
        self.owned = _texts(contract, "files_owned")
        self.readonly = _texts(contract, "files_readonly")
        self.generated = _texts(members, "generated")
        self.tree: str = members["tree"]
        self.base: str = members["base"]
        self.branch: str = members["branch"]
        self.server_url: str | None = members.get("server_url")
        # Where it does not, its launcher claims the work when it has ended.
        self.claims: bool = members.get("claims", True) is not False

    @property
    def name(self) -> str:
        """For messages: which contract it was that refused."""
        return f"contract of task {self.bead_id}, version {self.version}, {self.hash[:12]}"

    @property
    def call_words(self) -> str:
        """How a call of one of our tools names the task."""
        named = {} if self.swarm_id == _DEFAULT_SWARM else {"swarm_id": self.swarm_id}
        named["bead_id"] = self.bead_id
        return ", ".join(f"{key}={json.dumps(value)}" for key, value in named.items())


def read_contract(file: Path | str) -> LocalContract:
    """Raises ContractUnreadable."""
    try:
        with open(file, "rb") as opened:
            text = opened.read(_BYTES_MAX + 1)
        members = json.loads(text) if len(text) <= _BYTES_MAX else None
    except (OSError, ValueError, RecursionError) as error:
        raise ContractUnreadable(f"{file}: {error}") from error
    if not isinstance(members, dict):
        raise ContractUnreadable(f"{file}: is no contract")
    try:
        return LocalContract(members)
    except ContractUnreadable as error:
        raise ContractUnreadable(f"{file}: {error}") from error


def write_contract(file: Path | str, members: Mapping[str, Any]) -> None:
    """In one step and for its owner alone. Raises ContractUnreadable for what no hook would read;
    `format` may be left out."""
    whole = {"format": FORMAT, **members}
    LocalContract(whole)
    text = json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False).encode()
    partial = f"{file}.{os.getpid()}.part"
    made = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(made, "wb") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(made)
        os.replace(partial, file)
    except OSError:
        os.unlink(partial)
        raise


def hash_of(handoff: Any) -> str:
    """The same as `protocol.handoff.handoff_hash`, for the JSON of a handoff."""
    canonical = json.dumps(
        handoff, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    try:
        # Python's own: that of hashlib loads OpenSSL, which a hook would wait for.
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    return str(sha256(canonical.encode()).hexdigest())


def _check(members: Mapping[str, Any]) -> None:
    if members.get("format") != FORMAT:
        raise ContractUnreadable(f"format: is not {FORMAT}")
    for field in _TEXTS:
        if not isinstance(members.get(field), str) or not members[field]:
            raise ContractUnreadable(f"{field}: is no text")
    for field in _NUMBERS:
        if type(members.get(field)) is not int:
            raise ContractUnreadable(f"{field}: is no number")
    if not isinstance(members.get("server_url"), str | None):
        raise ContractUnreadable("server_url: is no text")
    if not os.path.isabs(members["tree"]):
        raise ContractUnreadable("tree: is not absolute")
    _check_handoff(members, members.get("handoff"))


def _check_handoff(members: Mapping[str, Any], handoff: Any) -> None:
    if not isinstance(handoff, dict) or not isinstance(handoff.get("contract"), dict):
        raise ContractUnreadable("handoff: holds no contract")
    if hash_of(handoff) != members["contract_hash"]:
        raise ContractUnreadable("contract_hash: does not fit the handoff; it was changed")
    if handoff["contract"].get("task_id") != members["bead_id"]:
        raise ContractUnreadable("handoff: is that of another task")


def _texts(holder: Mapping[str, Any], field: str) -> list[str]:
    found = holder.get(field)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ContractUnreadable(f"{field}: is no list of paths")
    return found


# Which contract holds where a hook is run.


VARIABLE: Final = "SHIFTBOSS_CONTRACT"
POINTER: Final = "shiftboss-contract"
_POINTER_BYTES_MAX: Final = 10_000


def contract_file(
    arguments: Sequence[str], environment: Mapping[str, str], folder: str
) -> str | None:
    """That of `--contract`; that of the environment; that of the work tree, by a pointer in its git
    folder. None: there is none, and nobody is to be held to one."""
    if "--contract" in arguments:
        at = arguments.index("--contract")
        if at + 1 >= len(arguments) or not arguments[at + 1]:
            raise ValueError("--contract: names no file")
        return arguments[at + 1]
    if environment.get(VARIABLE):
        return environment[VARIABLE]
    own = environment.get("GIT_DIR") or git_folder(folder)
    return _pointed_at(own) if own else None


def git_folder(folder: str) -> str | None:
    """Of the work tree around the folder, without asking git."""
    above = os.path.realpath(folder)
    while True:
        found = f"{above.rstrip('/')}/.git"
        if os.path.isdir(found):
            return found
        if os.path.isfile(found):
            with open(found, "rb") as opened:
                words = os.fsdecode(opened.read(_POINTER_BYTES_MAX)).strip()
            return os.path.join(above, words.removeprefix("gitdir:").strip())
        if above == "/":
            return None
        above = os.path.dirname(above)


def _pointed_at(own: str) -> str | None:
    try:
        with open(f"{own}/{POINTER}", "rb") as opened:
            found = os.fsdecode(opened.read(_POINTER_BYTES_MAX)).rstrip("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found or None
