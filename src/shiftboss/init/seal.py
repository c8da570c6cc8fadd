"""A line by which a file that was written whole is known, as long as nobody has changed it."""

from __future__ import annotations

import hashlib
import re


def sealed(text: str, comment: str) -> str:
    """With a last line behind `comment`, such as `#`."""
    words = "`shiftboss init --remove` deletes this file as long as nobody has changed it"
    return f"{text}{comment} init {_digest(text)}: {words}\n"


def is_untouched(text: str, comment: str) -> bool:
    text = text.replace("\r\n", "\n")  # git may write line ends as the system has them
    seal = re.search(rf"^{re.escape(comment)} init ([0-9a-f]{{16}}): .*\n", text, re.MULTILINE)
    return seal is not None and seal[1] == _digest(text[: seal.start()] + text[seal.end() :])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
