"""Names of variables that hold secrets."""

from __future__ import annotations

import re
from typing import Final

_SECRET: Final = re.compile(
    r"(?:^|_)(?:token|secret|password|passwd|passphrase|credentials?|api_?key|access_?key"
    r"|private_?key|auth)(?:_|$)",
    re.IGNORECASE,
)


def is_secret_name(variable: str) -> bool:
    return _SECRET.search(variable) is not None
