"""shiftboss questions: what blocked workers ask, and the answers."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftboss.cli.bus_calls import ask
from shiftboss.cli.client import parsed
from shiftboss.cli.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TokenFile,
)
from shiftboss.cli.output import print_json, say, show
from shiftboss.cli.times import now

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
    from shiftboss.cli.bus_tables import questions_table

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
