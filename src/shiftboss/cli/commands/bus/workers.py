"""shiftboss worker: who is on the bus."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftboss.cli.common.bus_calls import ask
from shiftboss.cli.common.client import parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.cli.views.times import now

worker = typer.Typer(help="See who is on the bus, and free who is stuck.", no_args_is_help=True)


@worker.command("list")
def list_workers(
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the workers with what they do, and how many tasks wait."""
    answer = ask(server, token_file, "get_status", swarm, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    status = parsed(answer, "workers")
    if status["workers"]:
        # rich is for those who look at something.
        from shiftboss.cli.views.bus import bus_workers_table

        show(bus_workers_table(status["workers"]))
    else:
        say("no workers")
    say(f"{status['queued']} queued")
    for hold in status.get("holds", []):
        say(f"held back: {hold['bead_id'] or 'all of them'}, {hold['reason']}")


@worker.command()
def reset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the worker.")],
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Free a stuck worker; its task goes back to the queue."""
    answer = ask(server, token_file, "reset_worker", swarm, as_json=as_json, worker_name=name)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "released")
    released = told["released"]
    say(f"{told['worker']} is free" + (f"; {released} goes on elsewhere" if released else ""))


# shiftboss questions: what blocked workers ask, and the answers.


questions = typer.Typer(help="See what blocked workers ask, and answer them.", no_args_is_help=True)


@questions.command("list")
def list_questions(
    show_all: Annotated[
        bool, typer.Option("--all", help="Also those that were answered, newest first.")
    ] = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the open questions, oldest first."""
    answer = ask(
        server, token_file, "list_questions", swarm, as_json=as_json, only_open=not show_all
    )
    if as_json:
        print_json(answer)
        return
    found = parsed(answer, "questions")["questions"]
    if not found:
        say("no questions" if show_all else "no open questions")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.bus import questions_table

    show(questions_table(found, now(), with_answers=show_all))


@questions.command()
def answer(
    question_id: Annotated[int, typer.Argument(metavar="ID", min=1, help="The question.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question; the worker that asked goes on with its task."""
    said: dict[str, object] = {"question_id": question_id, "answer": text}
    told = ask(server, token_file, "answer_question", swarm, as_json=as_json, **said)
    if as_json:
        print_json(told)
        return
    question = parsed(told, "question_id")
    say(f"{question['worker']} hears of it and goes on with {question['bead_id']}")
