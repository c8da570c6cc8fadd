"""What AGENTS.md says about working under a contract of Shiftboss."""

from __future__ import annotations

from typing import Final

LINES: Final = (
    "## Working under Shiftboss",
    "",
    "If Shiftboss gave you a task (your prompt names it, or SHIFTBOSS_TASK is set), these hold.",
    "Otherwise this section is not about you.",
    "",
    "- Change only the files of your contract. For another one, call `request_scope` with the path",
    "  and the reason, and wait for the grant. What was refused is not to be tried another way.",
    "- Work in the work tree that you were started in, on its branch. No other branches, no pushes",
    "  with force, no `--no-verify`.",
    "- Tests stay: do not remove, skip or weaken them.",
    "- Commit what you have done, then call `swarm_complete`. The server looks at it itself,",
    "  and answers with a receipt, or with every reason why not: mend those, and call it again.",
    "- If you cannot go on, say why with `report_milestone` and BLOCKED. Do not guess, and claim",
    "  nothing that is not so.",
)
