"""shiftboss worker and questions: who is on the bus, and what blocked workers ask."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import (
    list_by_swarm,
    show_by_swarm,
    swarm_of_question,
    swarm_of_worker,
    swarms_with,
    with_swarm_ids,
)
from shiftboss.cli.common.options import DEFAULT_SWARM, AnySwarm, ItemSwarm
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.times import now

worker = typer.Typer(
    help="List the workers of the bus, and free a stuck one.", no_args_is_help=True
)
questions = typer.Typer(help="List and answer the questions of workers.", no_args_is_help=True)


@worker.command("list")
@server_command()
def list_workers(session: ServerSession, swarm: AnySwarm = None) -> Output:
    """List the workers with their tasks, and how many tasks are queued."""
    if swarm is not None:
        document = session.call("get_status", swarm)
        return Output(document, lambda: _show_workers(parse_answer(document, "workers")))
    documents = {name: session.call("get_status", name) for name in swarms_with(session, "workers")}
    listings = {name: parse_answer(document, "workers") for name, document in documents.items()}
    answer = {
        "workers": with_swarm_ids({name: row["workers"] for name, row in listings.items()}),
        "queued": sum(listing["queued"] for listing in listings.values()),
        "holds": with_swarm_ids({name: row.get("holds", []) for name, row in listings.items()}),
    }
    return Output.of(answer, lambda: show_by_swarm(listings, _show_workers))


def _show_workers(status: dict[str, Any]) -> None:
    if status["workers"]:
        from shiftboss.cli.views.bus import bus_workers_table

        show(bus_workers_table(status["workers"]))
    else:
        print_line("no workers")
    print_line(f"{status['queued']} queued")
    for hold in status.get("holds", []):
        print_line(f"on hold: {hold['bead_id'] or 'all tasks'}, {hold['reason']}")


@worker.command()
@server_command()
def reset(
    session: ServerSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the worker.")],
    swarm: ItemSwarm = None,
) -> Output:
    """Free a stuck worker and put its task back into the queue."""
    answer = session.call("reset_worker", swarm_of_worker(session, name, swarm), worker_name=name)
    return Output(answer, lambda: _show_reset(parse_answer(answer, "released")))


def _show_reset(answer: dict[str, Any]) -> None:
    task = f"; {answer['released']} is queued again" if answer["released"] else ""
    print_line(f"{answer['worker']} is free{task}")


@questions.command("list")
@server_command()
def list_questions(
    session: ServerSession,
    show_all: Annotated[
        bool, typer.Option("--all", help="Include answered questions, newest first.")
    ] = False,
    swarm: AnySwarm = None,
) -> Output:
    """List the open questions, oldest first."""
    if swarm is None:
        return _questions_of_all(session, show_all=show_all)
    answer = session.call("list_questions", swarm, only_open=not show_all)
    return Output(
        answer,
        lambda: _show_questions(
            parse_answer(answer, "questions")["questions"], with_answers=show_all
        ),
    )


def _questions_of_all(session: ServerSession, *, show_all: bool) -> Output:
    listed = list_by_swarm(
        session, "list_questions", "questions", "questions", only_open=not show_all
    )

    def view() -> None:
        show_by_swarm(
            listed or {DEFAULT_SWARM: []},
            lambda rows: _show_questions(rows, with_answers=show_all),
        )

    return Output.of({"questions": with_swarm_ids(listed)}, view)


def _show_questions(question_views: list[dict[str, Any]], *, with_answers: bool) -> None:
    if not question_views:
        print_line("no questions" if with_answers else "no open questions")
        return
    from shiftboss.cli.views.bus import questions_table

    show(questions_table(question_views, now(), with_answers=with_answers))


@questions.command()
@server_command()
def answer(
    session: ServerSession,
    question_id: Annotated[
        int, typer.Argument(metavar="N", min=1, help="The number of the question.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    swarm: ItemSwarm = None,
) -> Output:
    """Answer a question, so that the worker continues with its task."""
    swarm_id = swarm_of_question(session, question_id, swarm)
    document = session.call("answer_question", swarm_id, question_id=question_id, answer=text)

    def view() -> None:
        question = parse_answer(document, "question_id")
        print_line(_effect_of_answer(session, swarm_id, question))

    return Output(document, view)


def _effect_of_answer(session: ServerSession, swarm_id: str, question: dict[str, Any]) -> str:
    task_id = question["bead_id"]
    not_running = session.not_running(swarm_id)
    if not_running is not None:
        return f"the answer is recorded; {not_running}"
    task = parse_answer(session.call("show_task", swarm_id, bead_id=task_id), "status")
    if task["status"] == "active":
        return f"{question['worker']} gets the answer and continues with {task_id}"
    if task["status"] == "failed":
        retry = f"shiftboss task retry {task_id} --swarm {swarm_id}"
        return f"{task_id} has failed; its next attempt gets the answer: {retry}"
    return f"the next attempt at {task_id} gets the answer"
