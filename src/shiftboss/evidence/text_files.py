"""Files that people write for us: policies and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shiftboss.errors import InvalidRequest

BYTES_MAX: Final = 4 * 1024 * 1024


def read_text(path: Path, field: str, invalid: type[InvalidRequest]) -> str:
    """Raises `invalid` for what cannot be read, is no text, or is too long."""
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise invalid(f"{path} cannot be read: {error.strerror}", field=field) from error
    except UnicodeDecodeError as error:
        raise invalid(f"{path} is not UTF-8: {error.reason}", field=field) from error
    if len(content) > BYTES_MAX:
        raise invalid(f"{path} is longer than {BYTES_MAX} bytes", field=field)
    return text
