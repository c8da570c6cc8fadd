"""One example for every command, shown at the end of its help.

A test parses each of them, so that an example cannot name an option that does not exist. A command
whose docstring has an example of its own needs none here.
"""

from __future__ import annotations

from typing import Any, Final

# Keeps the line breaks of the paragraph that it begins.
_AS_IT_STANDS: Final = "\b"
_EXAMPLES: Final[dict[str, str]] = {
    "open": "shiftboss open login",
    "init": "shiftboss init --server https://boss.example.com --token-file ~/.boss-token",
    "demo": "shiftboss demo --keep",
    "doctor": "shiftboss doctor",
    "fsck": "shiftboss fsck --db .shiftboss/shiftboss.db",
    "simulate": "shiftboss simulate --seeds 1..500 --steps 60",
    "plan show": "shiftboss plan show plan.yaml",
    "plan schema": "shiftboss plan schema > plan.schema.json",
    "land": "shiftboss land plan.yaml login-form",
    "usage": "shiftboss usage --swarm login",
    "questions list": "shiftboss questions list --swarm login",
    "questions answer": 'shiftboss questions answer 3 "Use the staging database" --swarm login',
    "scope list": "shiftboss scope list --swarm login",
    "scope grant": 'shiftboss scope grant 2 --note "the helper belongs to it" --swarm login',
    "scope refuse": 'shiftboss scope refuse 2 --note "another task owns it" --swarm login',
    "resume": 'shiftboss resume 1 --reason "the runner is back"',
    "swarm create": 'shiftboss swarm create --id login --feature "Sign in with a key"',
    "swarm list": "shiftboss swarm list --limit 10",
    "swarm show": "shiftboss swarm show login",
    "swarm resume": "shiftboss swarm resume login",
    "swarm clean": "shiftboss swarm clean login",
    "task import": "shiftboss task import .beads/issues.jsonl --swarm login",
    "task list": "shiftboss task list --swarm login",
    "task show": "shiftboss task show login-form --swarm login",
    "task submit": "shiftboss task submit login-form --swarm login",
    "task retry": "shiftboss task retry login-form --swarm login",
    "task cancel": "shiftboss task cancel login-form --swarm login",
    "worker list": "shiftboss worker list --swarm login",
    "worker reset": "shiftboss worker reset login-1 --swarm login",
    "handoff show": "shiftboss handoff show login-form --swarm login",
    "handoff owners": "shiftboss handoff owners --files 'src/auth/**'",
    "prompt": "shiftboss prompt login-form --swarm login",
    "claim list": "shiftboss claim list --swarm login",
    "claim retry": "shiftboss claim retry login-form --swarm login",
    "receipt list": "shiftboss receipt list --limit 10",
    "receipt show": "shiftboss receipt show login-form --swarm login",
    "receipt export": "shiftboss receipt export login-form --out receipt.json --swarm login",
    "receipt note": "shiftboss receipt note login-form --swarm login",
    "receipt key": "shiftboss receipt key > shiftboss.pub",
    "receipt keys": "shiftboss receipt keys --pem > keys.pem",
    "receipt retire-key": "shiftboss receipt retire-key 0123456789abcdef",
    "receipt add-key": "shiftboss receipt add-key old-server.pem",
    "failure": 'shiftboss failure login-form "npm: 503 Service Unavailable" --tool npm',
    "checkpoint show": "shiftboss checkpoint show login-form --swarm login",
    "checkpoint export": "shiftboss checkpoint export --out checkpoints.json --swarm login",
    "strategy suggest": 'shiftboss strategy suggest --goal "Add a login form"',
    "strategy list": "shiftboss strategy list",
    "notify list": "shiftboss notify list --state failed",
    "notify channels": "shiftboss notify channels",
    "notify test": "shiftboss notify test phone",
    "notify retry": "shiftboss notify retry 12",
    "servers": "shiftboss servers --json",
    "verifier": "shiftboss verifier --server https://shiftboss.example.com --at-once 2",
    "token list": "shiftboss token list --all",
    "token revoke": "shiftboss token revoke ci-runner",
    "policy check": "shiftboss policy check shiftboss.yaml",
    "policy show": "shiftboss policy show --effective",
    "policy apply": "shiftboss policy apply shiftboss.yaml --yes",
    "policy diff": "shiftboss policy diff shiftboss.yaml",
    "policy history": "shiftboss policy history --limit 5",
    "policy schema": "shiftboss policy schema > policy.schema.json",
    "repo list": "shiftboss repo list",
    "repo can-spawn": "shiftboss repo can-spawn web",
    "repo release": 'shiftboss repo release web --reason "its worker is gone"',
    "mcp": "shiftboss mcp --server http://127.0.0.1:7432",
    "hook": "shiftboss hook pre-commit --contract contract.json",
}


def with_examples(command: Any, path: str) -> Any:
    """The command, with the examples of all commands below it in their help."""
    for name, child in getattr(command, "commands", {}).items():
        with_examples(child, f"{path} {name}")
    command.help = _unwrapped(command.help or "")
    if path in _EXAMPLES:
        command.help += f"\n\n{_AS_IT_STANDS}\nExample:\n  {_EXAMPLES[path]}"
    return command


def _unwrapped(text: str) -> str:
    """Each paragraph in one line: the help is wrapped again to the width of the terminal, and the
    line breaks of the source would remain in it."""
    return "\n\n".join(
        paragraph if paragraph.startswith(_AS_IT_STANDS) else " ".join(paragraph.split())
        for paragraph in text.split("\n\n")
    )
