"""A day of an operator with one run: what is typed, what is shown, and every command that is shown.

`python -m tests.e2e.runs.operator_day docs/operator-day.svg` records it for the docs.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rich.console import Console
from rich.text import Text

from tests.commands import Done, Running, running, shiftboss
from tests.plan_runs import PlanProject, task
from tests.waiting import wait_until

SWARM = "day"
WAIT_SECONDS = 90.0
# A command ends where the sentence around it goes on.
_PRINTED = re.compile(r"shiftboss [a-z](?:'[^']*'|\"[^\"]*\"|[^`;()\n'\"])*")
# What is refused at the end of the day, because the other choice was made, with the reason.
_TOO_LATE = {
    f"shiftboss reject pay --swarm {SWARM} --reason 'what is wrong'": "was approved",
    f"shiftboss waive price --swarm {SWARM} --check criterion --reason 'why it may fail'": (
        "price has landed, so a waiver has no effect"
    ),
}


class Step(NamedTuple):
    """What was typed, and what was shown."""

    line: str
    done: Done


class Day:
    """The operator, in the folder of the project."""

    def __init__(self, project: PlanProject) -> None:
        self.project = project
        self.steps: list[Step] = []

    def type(self, line: str, below: str = ".") -> str:
        """Run a command; returns what it shows. It is an error if it fails."""
        done = self._run(line, below)
        self.steps.append(Step(line, done))
        assert done.code == 0, f"{line}: {done}"
        return done.out

    def type_the_rest(self, words: str = "shiftboss") -> None:
        """Type every command of these words that was shown and not typed yet, and those that they
        show."""
        while left := sorted(self.printed - {step.line for step in self.steps}):
            if not (left := [line for line in left if line.startswith(words)]):
                break
            for line in left:
                if line in _TOO_LATE:
                    self._is_refused(line, _TOO_LATE[line])
                else:
                    self.type(line)

    def _is_refused(self, line: str, reason: str) -> None:
        done = self._run(line)
        self.steps.append(Step(line, done))
        assert done.code == 1, f"{line}: {done}"
        assert reason in done.err, f"{line}: {done}"

    def look(self, line: str) -> Any:
        """The JSON answer of a command, which is not part of the record."""
        done = self._run(f"{line} --json")
        return json.loads(done.out) if done.code == 0 else None

    def type_shown(self, shown: str, words: str) -> str:
        """Type the command of these words that was shown, exactly as it was."""
        commands = [line for line in printed_commands(shown) if line.startswith(words)]
        assert commands, f"no `{words}` in:\n{shown}"
        return self.type(commands[0])

    def until(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, WAIT_SECONDS)

    def shown_by(self, line: str, words: str) -> str:
        """Type a command again and again until it shows these words; only the last is recorded."""
        shown: list[Done] = []

        def has_words() -> bool:
            shown[:] = [self._run(line)]
            return words in shown[0].out

        self.until(has_words, f"{words!r} in {line}")
        self.steps.append(Step(line, shown[0]))
        return shown[0].out

    def state(self, task_id: str) -> str:
        answer = self.look(f"shiftboss task show {task_id} --swarm {SWARM}")
        return "" if answer is None else str(answer["status"])

    def _run(self, line: str, below: str = ".") -> Done:
        arguments = shlex.split(line)
        assert arguments[0] == "shiftboss", line
        variables = self.project.environment()
        return shiftboss(*arguments[1:], folder=self.project.folder / below, **variables)

    @property
    def printed(self) -> set[str]:
        return {
            command
            for step in self.steps
            for command in printed_commands(f"{step.done.out}\n{step.done.err}")
        }


def printed_commands(text: str) -> list[str]:
    """The commands in a text, exactly as they stand there: a placeholder would not run."""
    return [match[0].rstrip(" .,:") for match in _PRINTED.finditer(text)]


def make_project(folder: Path) -> PlanProject:
    project = PlanProject(folder)
    project.plan(
        task("cart", do="ask"),
        task("price", do="wrong"),
        task("stock", do="rationed"),
        task("search", do="overspend", budget={"tokens": 5000}),
        task("banner", do="hang"),
        task("pay", review="required"),
        task("mail", "pay"),
        swarm=SWARM,
        workers=3,
        attempts=1,
        landing="squash",
    )
    return project


def play(day: Day) -> Done:
    """The day; returns how the run ended."""
    with running_run(day.project) as run:
        _lift_quota(day)
        _watch(day)
        _answer(day)
        _pause_and_resume(day)
        _raise_budget(day)
        _cancel(day)
        _refused_claim(day)
        _review(day)
        ended = run.end()
    day.steps.append(Step("shiftboss run plan.yaml", ended))
    _after_the_run(day)
    _land_by_hand(day)
    day.type_the_rest("shiftboss logs")  # cleaning up removes what they show
    _clean(day)
    return ended


def running_run(project: PlanProject) -> AbstractContextManager[Running]:
    arguments = ("run", "plan.yaml", "--own-server", "--trees", str(project.trees))
    return running(*arguments, folder=project.folder, **project.environment())


def _watch(day: Day) -> None:
    day.until(lambda: day.state("banner") == "active", "the agents work")
    day.shown_by("shiftboss status", "active")
    day.type("shiftboss task list", below="shop")
    assert "http://127.0.0.1:" in day.type(f"shiftboss open {SWARM}")


def _answer(day: Day) -> None:
    shown = day.shown_by("shiftboss status", "asks question")
    day.type("shiftboss questions list")
    day.type_shown(shown, "shiftboss questions answer")


def _pause_and_resume(day: Day) -> None:
    day.type(f"shiftboss swarm pause {SWARM} --reason lunch")
    shown = day.type(f"shiftboss status {SWARM}")
    assert "lunch" in shown
    day.type_shown(shown, "shiftboss swarm resume")


def _lift_quota(day: Day) -> None:
    """The quota is back tomorrow, and nothing starts before; somebody has bought more."""
    shown = day.shown_by("shiftboss why stock", "--task stock")
    assert "paused until" in day.type(f"shiftboss status {SWARM}")
    for line in printed_commands(shown):  # for the task, and for all of them
        day.type(line)


def _raise_budget(day: Day) -> None:
    shown = day.shown_by("shiftboss why search", "shiftboss budget set")
    day.type("shiftboss usage")
    day.type_shown(shown, "shiftboss budget set")


def _cancel(day: Day) -> None:
    day.project.wait_for_agent("banner.1")
    day.type("shiftboss logs banner")
    day.type("shiftboss diff banner --stat")
    day.type("shiftboss task cancel banner --reason 'marketing has changed its mind'")
    day.shown_by("shiftboss why banner", "cancelled")


def _refused_claim(day: Day) -> None:
    """The last attempt was refused: the task waits for an answer, which gives it another one."""
    day.until(lambda: day.state("price") == "queued", "price waits for an answer")
    shown = day.shown_by("shiftboss why price", "was refused 3 times")
    day.type("shiftboss diff price --claim")
    day.type("shiftboss logs price")
    (day.project.marks / "price.fixed").touch()  # the operator has mended the agent
    day.type_shown(shown, "shiftboss questions answer")


def _review(day: Day) -> None:
    shown = day.shown_by("shiftboss why pay", "waits for your review")
    day.type_shown(shown, "shiftboss diff")
    day.type_shown(shown, "shiftboss approve")


def _after_the_run(day: Day) -> None:
    """Its server is gone; the commands answer from the database."""
    for line in (
        "status",
        "receipt show cart",
        f"events {SWARM}",
        "usage",
        "logs cart",
        "why mail",
    ):
        day.type(f"shiftboss {line}")


def _land_by_hand(day: Day) -> None:
    project = day.project
    file = project.folder / "plan.yaml"
    plan = yaml.safe_load(file.read_text())
    plan["tasks"].append(task("late"))
    file.write_text(yaml.safe_dump(plan | {"auto_merge": False}))
    day.type(f"shiftboss run plan.yaml --own-server --trees {shlex.quote(str(project.trees))}")
    shown = day.shown_by("shiftboss status", "shiftboss land")
    day.type_shown(shown, "shiftboss land")


def _clean(day: Day) -> None:
    day.type("shiftboss clean")
    day.type("shiftboss clean --apply")


# Lines of each output that the record shows.
_LINES_SHOWN = 14
_COLUMNS = 110
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def record(day: Day) -> str:
    """The day as a picture of a terminal."""
    console = Console(record=True, file=io.StringIO(), width=_COLUMNS, force_terminal=True)
    for line, done in day.steps:
        typed = line.replace(str(day.project.folder), "~/code")
        console.print(Text(f"$ {_shortened(typed)}", "bold green"))
        output = done.out.replace(str(day.project.folder), "~/code")
        shown = [_shortened(text) for text in output.rstrip().splitlines()]
        for text in shown[:_LINES_SHOWN]:
            console.print(Text(text), overflow="fold")
        if len(shown) > _LINES_SHOWN:
            console.print(Text(f"… {len(shown) - _LINES_SHOWN} more lines", "dim"))
        console.print()
    # Without the fonts that a browser would fetch from elsewhere.
    return _WEB_FONT.sub("", console.export_svg(title="A day with one run"))


def _shortened(line: str) -> str:
    """Without what only a recording needs: a server and a folder of its own."""
    return re.sub(r" *(?:--own-server )?--trees \S+|~/code/(?=plan\.yaml)", "", line).rstrip()


def main(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        day = Day(make_project(Path(folder)))
        play(day)
        file.write_text(record(day))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
