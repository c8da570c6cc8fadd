"""A contract in the operator's editor, for `handoff amend`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from shiftboss.cli.common.output import printable
from shiftboss.errors import ShiftbossError

_HEAD: Final = """\
# The contract of {task_id}, version {version}. Save it to put a new version in force.
# `reason` is what its worker is told. `expectations_change` are tests of the base whose
# expectations the task may change.
"""


class BadAmendment(ShiftbossError):
    code = "bad_amendment"
    title = "The contract cannot be amended like this"


@contextmanager
def edited_changes(view: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of the contract that the operator changes in an editor, and the version that was
    edited; empty if nothing was changed. `view` is the answer of `show_handoff`.

    The edited text is kept in its file if it is invalid, or if the caller fails with it.
    """
    import yaml  # imported late: few commands need it

    parts = _parts(view)
    head = _HEAD.format(task_id=view["bead_id"], version=view["version"])
    body = yaml.safe_dump({"reason": "", **parts}, sort_keys=False, allow_unicode=True, width=1000)
    with _edited_file(f"{head}{body}") as text:
        try:
            edited = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise BadAmendment(f"this is not YAML: {error}") from error
        if not isinstance(edited, dict):
            raise BadAmendment(
                "the file must keep its members: reason, files, success_criteria ..."
            )
        changes = {name: value for name, value in edited.items() if parts.get(name) != value}
        reason = changes.pop("reason", None)
        yield {**changes, "reason": reason, "version": view["version"]} if changes else {}


def _parts(view: Mapping[str, Any]) -> dict[str, Any]:
    contract = view["handoff"]["contract"]
    return {
        "files": contract["files_owned"],
        "files_readonly": contract["files_readonly"],
        "success_criteria": contract["success_criteria"],
        "expectations_change": view["policy"].get("expectations_change", []),
    }


@contextmanager
def _edited_file(text: str) -> Iterator[str]:
    """The text as the operator's editor has left it. Its file is removed afterwards, unless that
    would lose what the operator wrote."""
    editor = _editor()
    folder = Path(tempfile.mkdtemp(prefix="shiftboss-amend-"))
    file = folder / "contract.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        yield _edit(editor, file)
    except BaseException:  # also if the operator interrupts a request that takes long
        if _differs(file, text):
            print(printable(f"what you wrote is kept in {file}"), file=sys.stderr, flush=True)
        else:
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def _editor() -> list[str]:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor and not sys.stdin.isatty():
        raise BadAmendment(
            "say what to change: there is no terminal to edit the contract in",
            hint="give --files, --readonly, --criterion or --expectations-change",
        )
    try:
        return shlex.split(editor or "vi")
    except ValueError as error:
        raise _editor_failed(error) from error


def _edit(editor: list[str], file: Path) -> str:
    try:
        subprocess.run([*editor, str(file)], check=True)
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise _editor_failed(error) from error


def _editor_failed(error: Exception) -> BadAmendment:
    return BadAmendment(f"the editor failed: {error}", hint="set EDITOR to the one to use")


def _differs(file: Path, text: str) -> bool:
    try:
        return file.read_bytes() != text.encode()
    except OSError:
        return False
