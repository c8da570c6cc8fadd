"""Write the table of roles and requests into the reference: `python -m tools.roles_table`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shiftboss.server.operations.access_table import ROLES, may_ask, permissions_needed
from tools.lock_file import ROOT

REFERENCE: Final = Path(ROOT) / "docs" / "reference.md"
BEGIN: Final = "<!-- roles: python -m tools.roles_table -->\n"
END: Final = "<!-- end of roles -->\n"


def roles_table() -> str:
    """One row per kind of request, one column per role."""
    lines = [
        f"| request | permission | {' | '.join(role.value for role in ROLES)} |",
        f"|---|---|{'---|' * len(ROLES)}",
    ]
    for request, permission in permissions_needed():
        cells = ["yes" if may_ask(role, request, permission) else "no" for role in ROLES]
        lines.append(f"| `{request}` | {permission.value} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def table_in(text: str) -> str:
    return text.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    text = REFERENCE.read_text()
    REFERENCE.write_text(text.replace(BEGIN + table_in(text), BEGIN + roles_table()))


if __name__ == "__main__":
    main()
