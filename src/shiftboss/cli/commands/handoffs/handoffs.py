"""shiftboss handoff: give tasks their contracts, look at them, see who owns what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftboss.cli.commands.handoffs.spawn_options import (
    Base,
    Branch,
    Criterion,
    DependsOn,
    Description,
    DescriptionFile,
    Files,
    Generated,
    OnlyPrompt,
    Readonly,
    Replace,
    Repo,
    Setup,
    StrategyName,
    Submit,
    Target,
    Title,
    Trait,
    named_repo,
)
from shiftboss.cli.common.bus_calls import OperatorPlaces, ask, ask_as_operator, ask_or_operate
from shiftboss.cli.common.client import parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    OperatorTokenFile,
    Server,
    Swarm,
    TaskId,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, print_text, say, show
from shiftboss.cli.views.times import now
from shiftboss.errors import ShiftbossError

handoff = typer.Typer(help="Give tasks their contracts, and look at them.", no_args_is_help=True)


class BadDescription(ShiftbossError):
    code = "bad_description"
    title = "The description cannot be used"


@handoff.command()
def spawn(
    task_id: TaskId,
    files: Files,
    title: Title = None,
    description: Description = None,
    description_file: DescriptionFile = None,
    depends_on: DependsOn = None,
    repo: Repo = None,
    base: Base = None,
    branch: Branch = None,
    target: Target = None,
    strategy: StrategyName = None,
    criterion: Criterion = None,
    readonly: Readonly = None,
    generated: Generated = None,
    setup: Setup = None,
    trait: Trait = None,
    submit: Submit = False,
    replace: Replace = False,
    prompt: OnlyPrompt = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Give a task its contract: the files that it owns, and what must hold when it is done."""
    said: dict[str, object] = {
        "bead_id": task_id,
        "files": files,
        "subtask_title": title,
        "subtask_description": _described(description, description_file),
        "dependencies_completed": depends_on or [],
        "repo": named_repo(repo, server, token_file, as_json=as_json),
        "base": base,
        "branch": branch,
        "target": target,
        "strategy": strategy,
        "success_criteria": criterion or [],
        "files_readonly": readonly,
        "policy": {"generated": generated or [], "setup": setup or []},
        "traits": trait or [],
        "submit": submit,
    }
    places = OperatorPlaces(server, token_file, operator_token_file)
    if replace:
        answer = ask_as_operator(places, "replace_handoff", swarm, said, as_json=as_json)
    else:
        operations = ("swarm_spawn_subtask", "spawn_subtask")
        answer = ask_or_operate(places, *operations, swarm, said, as_json=as_json)
    _tell_spawned(answer, as_json=as_json, prompt=prompt)


def _described(text: str | None, file: Path | None) -> str | None:
    if text is not None and file is not None:
        raise BadDescription("give --description or --description-file, not both")
    if file is None:
        return text
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadDescription(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadDescription(f"{file} is not UTF-8 text") from error


def _tell_spawned(answer: bytes, *, as_json: bool, prompt: bool) -> None:
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "contract_version")
    if prompt:
        print_text(told["prompt"])
        return
    contract = told["handoff"]["contract"]
    say(
        f"{told['bead_id']} has contract version {told['contract_version']} and is {told['status']}"
    )
    say(f"owns {', '.join(contract['files_owned'])}")
    for criterion in contract["success_criteria"]:
        say(f"done when: {criterion}")
    if told.get("model"):
        say(f"model: {told['model']}")
    say(f"the worker's prompt: shiftboss handoff show {told['bead_id']} --prompt")


@handoff.command("show")
def show_handoff(
    task_id: TaskId,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The one in force if left out.")
    ] = None,
    prompt: OnlyPrompt = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the contract of a task, its waivers, and what became of its newest claim."""
    said: dict[str, object] = {"bead_id": task_id, "version": version}
    answer = ask(server, token_file, "show_handoff", swarm, as_json=as_json, **said)
    if as_json:
        print_json(answer)
        return
    view = parsed(answer, "handoff")
    if prompt:
        print_text(view["prompt"])
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import claim_lines, handoff_summary

    show(handoff_summary(view, now()), *claim_lines(view["last_claim"]))


@handoff.command()
def owners(
    files: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Only who is in the way of it. May be given again."),
    ] = None,
    repo: Repo = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List which tasks in flight own which files of a repository."""
    found = named_repo(repo, server, token_file, as_json=as_json)
    said: dict[str, object] = {"repo": found, "files": files or []}
    answer = ask(server, token_file, "who_owns", swarm, as_json=as_json, **said)
    if as_json:
        print_json(answer)
        return
    held = parsed(answer, "holders")
    if not held["holders"]:
        say(f"nobody owns {'that' if files else 'anything'} in {held['repo']}")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import owners_table

    show(owners_table(held["holders"]))


# shiftboss prompt: what the worker of a task reads.


def prompt(
    task_id: TaskId,
    ci: Annotated[
        bool, typer.Option("--ci", help="What it reads about CI, once it has pushed.")
    ] = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the short prompt that the worker of a task starts with."""
    operation = "get_ci_instructions" if ci else "get_worker_prompt"
    answer = ask(server, token_file, operation, swarm, as_json=as_json, bead_id=task_id)
    if as_json:
        print_json(answer)
    else:
        print_text(parsed(answer, "text")["text"])
