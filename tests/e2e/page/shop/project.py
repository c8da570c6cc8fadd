"""The shop as a repository with a plan, which the real command runs with scripted agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.commands import shiftboss
from tests.e2e.page.shop.files import BASE, OF_TASK, WRONG_LIMITS
from tests.plan_runs import CRITERION, QUICK_PYTHON, PlanProject

AGENT: Final = Path(__file__).with_name("agent.py")
SWARM: Final = "login-links"
QUESTION: Final = "Where should the link lead: to the shop, or back to the basket?"
WANTED_BECAUSE: Final = "The audit log needs a place, and settings.py has all the others."

TITLES: Final = {
    "tokens": "Issue login tokens that expire",
    "limits": "Allow five login mails an hour",
    "mail": "Send the login link by mail",
    "audit": "Write every login to the audit log",
    "sessions": "Keep a session for thirty days",
    "form": "Show a login form that works without JavaScript",
}
# How they get into trouble.
TROUBLE: Final[dict[str, dict[str, Any]]] = {
    "limits": {"wrong": WRONG_LIMITS},
    "mail": {"asks": QUESTION},
    "audit": {"wants": ["settings.py"], "wants_because": WANTED_BECAUSE},
}


class ShopProject(PlanProject):
    """`script` has what each agent does; change it before the run starts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.git("rm", "--quiet", "test_base.py", "shared.txt")
        for name, text in BASE.items():
            (self.repo / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--amend", "-m", "A tea shop")
        self.script: dict[str, dict[str, Any]] = {
            name: {"title": title, "files": OF_TASK[name], **TROUBLE.get(name, {})}
            for name, title in TITLES.items()
        }

    def write_plan(self, *tasks: dict[str, Any], **members: Any) -> None:
        script = self.folder / "script.json"
        script.write_text(json.dumps(self.script))
        command = [*QUICK_PYTHON, str(AGENT), str(script)]
        agents = {"scripted": {"kind": "command", "command": command}}
        given = {"goal": "Customers log in with a link", "swarm": SWARM, "landing": "squash"}
        self.plan(*tasks, **(given | {"agents": agents, "agent": "scripted"} | members))

    def login_link(self) -> str:
        """What `shiftboss open` would open."""
        done = shiftboss("open", "--print", folder=self.folder, **self.environment())
        assert done.code == 0, done
        return done.out.split()[-1]


def shop_task(name: str, *needs: str, **members: Any) -> dict[str, Any]:
    """A task with the contract for its files, without what it has to ask for."""
    files = [path for path in OF_TASK[name] if path not in BASE]
    return {
        "id": name,
        "title": TITLES[name],
        "depends_on": list(needs),
        "files_owned": files,
        "criteria": [CRITERION],
        **members,
    }
