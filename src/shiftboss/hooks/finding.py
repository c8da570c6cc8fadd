"""Which contract holds where a hook is run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

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


def write_pointer(own_git_folder: str, file: str) -> None:
    """So that hooks in this work tree find the contract also without an argument."""
    partial = f"{own_git_folder}/{POINTER}.part"
    with open(partial, "wb") as opened:
        opened.write(os.fsencode(os.path.abspath(file)) + b"\n")
    os.replace(partial, f"{own_git_folder}/{POINTER}")


def _pointed_at(own: str) -> str | None:
    try:
        with open(f"{own}/{POINTER}", "rb") as opened:
            found = os.fsdecode(opened.read(_POINTER_BYTES_MAX)).rstrip("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found or None
