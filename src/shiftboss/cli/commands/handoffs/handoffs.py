"""shiftboss handoff and prompt: contracts of tasks, their owners, and prompts of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shiftboss.cli.commands.handoffs.disputes import amend
from shiftboss.cli.commands.handoffs.spawn_options import (
    Base,
    Branch,
    Criterion,
    DependsOn,
    Description,
    DescriptionFile,
    ExpectationsChange,
    Files,
    Generated,
    HeldOut,
    HeldOutCriterion,
    LandingKind,
    LandingOption,
    NetworkKind,
    NetworkOption,
    OnlyPrompt,
    OnlyReads,
    Readonly,
    Replace,
    Repo,
    ReviewKind,
    ReviewOption,
    SandboxKind,
    SandboxOption,
    Setup,
    StrategyName,
    Submit,
    Target,
    Title,
    Trait,
    held_out_tests,
    owned_files,
    resolve_repo,
)
from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM, Swarm, TaskId, TaskSwarm
from shiftboss.cli.common.output import print_line, print_text, show
from shiftboss.cli.common.times import now
from shiftboss.errors import ShiftbossError

handoff = typer.Typer(help="Give tasks their contracts, and show them.", no_args_is_help=True)


class BadDescription(ShiftbossError):
    code = "bad_description"
    title = "The description cannot be used"


@handoff.command()
@server_command(operator=True)
def spawn(
    session: ServerSession,
    task_id: TaskId,
    files: Files = None,
    only_reads: OnlyReads = False,
    title: Title = None,
    description: Description = None,
    description_file: DescriptionFile = None,
    depends_on: DependsOn = None,
    repo: Repo = None,
    base: Base = None,
    branch: Branch = None,
    target: Target = None,
    landing: LandingOption = LandingKind.MERGE,
    review: ReviewOption = ReviewKind.NONE,
    strategy: StrategyName = None,
    criterion: Criterion = None,
    readonly: Readonly = None,
    generated: Generated = None,
    expectations_change: ExpectationsChange = None,
    setup: Setup = None,
    held_out: HeldOut = None,
    held_out_criterion: HeldOutCriterion = None,
    sandbox: SandboxOption = SandboxKind.AUTO,
    network: NetworkOption = NetworkKind.SETUP,
    trait: Trait = None,
    submit: Submit = False,
    replace: Replace = False,
    prompt: OnlyPrompt = False,
    swarm: Swarm = DEFAULT_SWARM,
) -> Output:
    """Give a task its contract: the files it owns, and the criteria for done.

    \b
    Example:
      shiftboss handoff spawn bd-1 --title Login --files src/auth/ --submit
    """
    request: dict[str, object] = {
        "bead_id": task_id,
        "files": owned_files(files, only_reads=only_reads),
        "subtask_title": title,
        "subtask_description": _read_description(description, description_file),
        "dependencies_completed": depends_on or [],
        "repo": resolve_repo(session, repo),
        "base": base,
        "branch": branch,
        "target": target,
        "landing": landing.value,
        "review": review.value,
        "strategy": strategy,
        "success_criteria": criterion or [],
        "files_readonly": readonly,
        "policy": _verification_policy(generated, expectations_change, setup, sandbox, network),
        "traits": trait or [],
        "submit": submit,
    }
    tests = held_out_tests(held_out, held_out_criterion)
    if tests is not None:
        request["held_out"] = tests
    answer = _send_spawn(session, swarm, request, replace=replace)
    return Output(
        answer,
        lambda: _show_spawned(parse_answer(answer, "contract_version"), swarm, only_prompt=prompt),
    )


def _verification_policy(
    generated: list[str] | None,
    expectations_change: list[str] | None,
    setup: list[str] | None,
    sandbox: SandboxKind,
    network: NetworkKind,
) -> dict[str, object]:
    return {
        "generated": generated or [],
        "expectations_change": expectations_change or [],
        "setup": setup or [],
        "sandbox": sandbox.value,
        "network": network.value,
    }


def _send_spawn(
    session: ServerSession, swarm: str, request: dict[str, object], *, replace: bool
) -> bytes:
    if replace:
        return session.call_as_operator("replace_handoff", swarm, **request)
    if "held_out" in request:
        return session.call_as_operator("spawn_subtask", swarm, **request)
    return session.call_as_operator_if_own("swarm_spawn_subtask", "spawn_subtask", swarm, **request)


def _read_description(text: str | None, file: Path | None) -> str | None:
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


def _show_spawned(answer: dict[str, Any], swarm_id: str, *, only_prompt: bool) -> None:
    if only_prompt:
        print_text(answer["prompt"])
        return
    task_id, contract = answer["bead_id"], answer["handoff"]["contract"]
    print_line(
        f"{task_id} has contract version {answer['contract_version']} and is {answer['status']}"
    )
    print_line(f"owns {', '.join(contract['files_owned']) or 'nothing: it only reads'}")
    for criterion in contract["success_criteria"]:
        print_line(f"done when: {criterion}")
    if answer.get("model"):
        print_line(f"model: {answer['model']}")
    print_line(
        f"to see the worker's prompt: shiftboss handoff show {task_id} --prompt --swarm {swarm_id}"
    )


@handoff.command("show")
@server_command()
def show_handoff(
    session: ServerSession,
    task_id: TaskId,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Default: the one in force.")
    ] = None,
    prompt: OnlyPrompt = False,
    swarm: TaskSwarm = None,
) -> Output:
    """Show the contract of a task, its waivers, and the verdict on its last claim."""
    swarm_id = session.swarm_of(task_id, swarm)
    answer = session.call("show_handoff", swarm_id, bead_id=task_id, version=version)

    def view() -> None:
        _show_handoff(parse_answer(answer, "handoff"), swarm_id, only_prompt=prompt)

    return Output(answer, view)


def _show_handoff(view: dict[str, Any], swarm_id: str, *, only_prompt: bool) -> None:
    if only_prompt:
        print_text(view["prompt"])
        return
    from shiftboss.cli.views.handoffs import claim_lines, handoff_summary, waive_lines
    from shiftboss.cli.views.overview import show_lines

    claim = view["last_claim"]
    show(handoff_summary(view, now()), *claim_lines(claim))
    show_lines(waive_lines(swarm_id, view["bead_id"], claim))


handoff.command()(amend)


@handoff.command()
@server_command()
def owners(
    session: ServerSession,
    files: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Only owners that overlap with it. May be repeated."),
    ] = None,
    repo: Repo = None,
    swarm: Swarm = DEFAULT_SWARM,
) -> Output:
    """List which open tasks own which files of a repository."""
    repository = resolve_repo(session, repo)
    answer = session.call("who_owns", swarm, repo=repository, files=files or [])
    return Output(
        answer, lambda: _show_owners(parse_answer(answer, "holders"), of_files=bool(files))
    )


def _show_owners(answer: dict[str, Any], *, of_files: bool) -> None:
    if not answer["holders"]:
        what = "these files" if of_files else "files"
        print_line(f"no task owns {what} in {answer['repo']}")
        return
    from shiftboss.cli.views.handoffs import owners_table

    show(owners_table(answer["holders"]))


@server_command()
def prompt(
    session: ServerSession,
    task_id: TaskId,
    ci: Annotated[
        bool, typer.Option("--ci", help="Print the instructions for CI after a push instead.")
    ] = False,
    swarm: TaskSwarm = None,
) -> Output:
    """Print the prompt that the worker of a task starts with."""
    operation = "get_ci_instructions" if ci else "get_worker_prompt"
    answer = session.call(operation, session.swarm_of(task_id, swarm), bead_id=task_id)
    return Output(answer, lambda: print_text(parse_answer(answer, "text")["text"]))
