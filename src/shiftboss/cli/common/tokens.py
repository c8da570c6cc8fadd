"""The tokens: from a file or the environment, never from the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from shiftboss.errors import ShiftbossError

TOKEN_VARIABLE: Final = "SHIFTBOSS_TOKEN"  # noqa: S105  (its name, not its value)
OPERATOR_TOKEN_VARIABLE: Final = "SHIFTBOSS_OPERATOR_TOKEN"  # noqa: S105
# Where a server that was started here keeps it; said again here, for its module costs much.
OPERATOR_TOKEN_FILE: Final = Path(".shiftboss", "operator-token")
TOKEN_CHARACTERS_MAX: Final = 4096
_OTHERS: Final = 0o077


class BadToken(ShiftbossError):
    code = "bad_token"
    title = "The token cannot be used"


def read_token(token_file: Path | None) -> str | None:
    """The token of the file, or else of the environment; None when there is neither."""
    return _said(token_file, TOKEN_VARIABLE)


def read_operator_token(token_file: Path | None) -> str:
    """The operator's, for what nobody else may do."""
    token = find_operator_token(token_file)
    if token is None:
        raise BadToken(
            "only the operator may do this, and there is no operator's token here",
            hint=f"set {OPERATOR_TOKEN_VARIABLE} or --operator-token-file; `shiftboss serve` keeps "
            "it beside its database, a server that `shiftboss run` has started has that of the run",
        )
    return token


def find_operator_token(token_file: Path | None) -> str | None:
    """Of the file, the environment, or a server's folder here or above; None where none is."""
    token = _said(token_file, OPERATOR_TOKEN_VARIABLE)
    if token is not None:
        return token
    here = Path.cwd()
    files = (one / OPERATOR_TOKEN_FILE for one in (here, *here.parents))
    found = next(filter(_is_there, files), None)
    return None if found is None else _checked(_of_file(found), str(found))


def _is_there(file: Path) -> bool:
    """A folder that is somebody else's is none of ours."""
    try:
        return file.exists()
    except PermissionError:
        return False


def given_operator_token() -> str | None:
    """For a server: the one that the environment sets, None when it shall make its own."""
    return _said(None, OPERATOR_TOKEN_VARIABLE)


def operator_token_of_input(descriptor: int) -> str:
    """For the server of a run: the first line, which nobody else can read."""
    said = b""
    while b"\n" not in said and len(said) <= TOKEN_CHARACTERS_MAX:
        read = os.read(descriptor, TOKEN_CHARACTERS_MAX + 1)
        if not read:
            break
        said += read
    line = said.partition(b"\n")[0].decode(errors="replace")
    return _checked(line.strip(), "standard input")


def _said(token_file: Path | None, variable: str) -> str | None:
    if token_file is not None:
        return _checked(_of_file(token_file), str(token_file))
    said = os.environ.get(variable, "").strip()
    return _checked(said, variable) if said else None


def _of_file(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            # Of the open file, so that nobody can swap it between look and read.
            mode = os.fstat(file.fileno()).st_mode
            if mode & _OTHERS:
                raise BadToken(
                    f"{path} can be read by others", hint=f"run: chmod 600 {path}", field="token"
                )
            return file.read(TOKEN_CHARACTERS_MAX + 1).strip()
    except OSError as error:
        raise BadToken(f"cannot read the token file {path}: {error.strerror}") from error


def _checked(token: str, source: str) -> str:
    """A token goes into a header: one line of printable ASCII."""
    if not token:
        raise BadToken(f"there is no token in {source}")
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii() or not token.isprintable():
        raise BadToken(
            f"the token in {source} is not usable",
            hint=f"one line of at most {TOKEN_CHARACTERS_MAX} printable ASCII characters",
        )
    return token
