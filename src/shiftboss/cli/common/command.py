"""The frame of a command: the options that commands share, and the choice of JSON or a view.

A command returns an `Output`; with `--json` the frame prints its document, else it shows its view.
Commands that talk to the server get a `ServerSession` as their first argument:

    @task.command("show")
    @server_command()
    def show_task(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
        document = session.call("show_task", session.swarm_of(task_id, swarm), bead_id=task_id)
        return Output(document, lambda: show(task_summary(parsed(document, "waits_for"))))
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cached_property, wraps
from http import HTTPStatus
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, NamedTuple

import typer

from shiftboss.cli.common.ambiguous_swarm import AmbiguousSwarm
from shiftboss.cli.common.client import Client, RequestRefused, body_of, parse_answer, swarm_path
from shiftboss.cli.common.discovery import Target, find_target, serve_command
from shiftboss.cli.common.options import (
    DEFAULT_SWARM,
    CaFile,
    OperatorTokenFile,
    ServerUrl,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, printable
from shiftboss.cli.common.tokens import (
    AgentIsNotOperator,
    find_operator_token,
    is_agent,
    operator_token_beside,
    operator_token_file,
)
from shiftboss.client.token_files import find_token
from shiftboss.errors import ShiftbossError

Command = Callable[..., None]


def _show_nothing() -> None:
    pass


class Output(NamedTuple):
    """What a command prints: `document` with `--json`, else `view`; then `notes`, on stderr.

    With an `error`, the command fails after that. The view imports what it needs: rich takes 50 ms.
    """

    document: bytes
    view: Callable[[], None] = _show_nothing
    error: ShiftbossError | None = None
    notes: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        answer: Mapping[str, object],
        view: Callable[[], None] = _show_nothing,
        error: ShiftbossError | None = None,
        notes: Sequence[str] = (),
    ) -> Output:
        """Of an answer that the command itself has composed."""
        return cls(json.dumps(answer).encode(), view, error, notes)


class ServerSession:
    """The server that a command talks to. The first request finds it, and reads the token.

    If no server is running, the database of this folder answers: see `OfflineClient`.
    """

    def __init__(
        self,
        address: str | None,
        token_file: Path | None,
        operator_token_file: Path | None = None,
        *,
        as_json: bool,
    ) -> None:
        self.as_json = as_json
        self._address = address
        self._token_file = token_file
        self._operator_token_file = operator_token_file

    def renewed(self) -> ServerSession:
        """One that looks for the server again, with the token as it is in its file then."""
        return ServerSession(
            self._address, self._token_file, self._operator_token_file, as_json=self.as_json
        )

    @cached_property
    def _target(self) -> Target:
        return find_target(self._address)

    @cached_property
    def client(self) -> Client:
        target = self._target
        if target.database is not None:
            from shiftboss.cli.common.offline_client import OfflineClient

            return OfflineClient(target.database)
        token = find_token(self._token_file)
        operators = operator_token_file(target.state)
        return Client(target.address, token, looked_in=target.looked_in, operators=operators)

    @property
    def is_offline(self) -> bool:
        """Whether the answers come from a database that no server has open."""
        return self._target.database is not None

    @property
    def offline_database(self) -> Path | None:
        """The database that answers, if no server has it open."""
        return self._target.database

    @property
    def is_placed(self) -> bool:
        """Whether a server was named, or this folder has led to one or to its database."""
        return self._target.looked_in is None

    def not_running(self, swarm_id: str) -> str | None:
        """Printed instead of the effect on workers: without a server there are none."""
        if not self.is_offline:
            return None
        status = parse_answer(self.client.get(swarm_path(swarm_id, "status")), "swarm_id")
        command = status.get("run_command")
        if command:
            return f"to continue the run: {command}"
        return f"to start a server: {serve_command()}"

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    def swarm_of(self, task_id: str, swarm: str | None) -> str:
        """The given swarm, or the only one that has a task of this id. Raises AmbiguousSwarm.

        For an unknown task it is the default swarm, so that the operation says what is wrong.
        """
        if swarm is not None:
            return swarm
        document = self.client.post("/bus/find_task", {"bead_id": task_id})
        rows = parse_answer(document, "swarms")["swarms"]
        swarms = {str(row["swarm_id"]): row["status"] or "deleted" for row in rows}
        if len(swarms) > 1:
            raise AmbiguousSwarm(f"a task {task_id}", swarms)
        return next(iter(swarms), DEFAULT_SWARM)

    def call(self, operation: str, swarm_id: str | None, /, **members: object) -> bytes:
        """An operation of the bus. Members that are None are not sent."""
        return self.client.call_bus(operation, swarm_id, **members)

    def call_as_operator(self, operation: str, swarm_id: str, /, **members: object) -> bytes:
        """An operation that only the operator may use."""
        return self.post_as_operator(operation, body_of(swarm_id, members))

    def post_as_operator(self, operation: str, body: Mapping[str, object]) -> bytes:
        if self.is_offline and is_agent():
            raise AgentIsNotOperator
        client = self.client if self.is_offline else self._operator_client()
        return client.post(f"/operator/{operation}", body)

    def _operator_client(self) -> Client:
        source = find_token(self._token_file)
        operator_token = operator_token_beside(
            source.token, self._operator_token_file, self._target
        )
        return Client(self._target.address, source, operator_token)

    def call_maybe_as_operator(
        self, operation: str, operator_operation: str, swarm_id: str, /, **members: object
    ) -> bytes:
        """An operation that the server may reserve for the operator. The operator's token is sent
        only to a server that asks for it."""
        try:
            return self.call(operation, swarm_id, **members)
        except RequestRefused as refusal:
            if refusal.http_status != HTTPStatus.FORBIDDEN or not self._is_operator:
                raise
        return self.call_as_operator(operator_operation, swarm_id, **members)

    def call_as_operator_if_own(
        self, operation: str, operator_operation: str, swarm_id: str, /, **members: object
    ) -> bytes:
        """An operation that counts for more if the operator asks for it. The token is sent unasked
        only to the server of this folder, which wrote it."""
        if self._target.state is not None and not is_agent() and self._is_operator:
            return self.call_as_operator(operator_operation, swarm_id, **members)
        return self.call_maybe_as_operator(operation, operator_operation, swarm_id, **members)

    @property
    def _is_operator(self) -> bool:
        if self.is_offline:
            return not is_agent()
        token = find_operator_token(self._operator_token_file, self._target)
        return token is not None


def server_command(
    *, json_help: str = "Print the server's JSON.", operator: bool = False
) -> Callable[[Callable[Concatenate[ServerSession, ...], Output | None]], Command]:
    """Adds --server, --token-file, --ca and --json, and with `operator` --operator-token-file.

    A command that prints its output itself, such as a stream, returns None.
    """
    options = [
        _option("server", ServerUrl, None),
        _option("token_file", TokenFile, None),
        _option("ca", CaFile, None),
    ]
    if operator:
        options.append(_option("operator_token_file", OperatorTokenFile, None))
    options.append(_json_option(json_help))

    def decorate(command: Callable[Concatenate[ServerSession, ...], Output | None]) -> Command:
        @wraps(command)
        def run(
            *,
            server: str | None,
            token_file: Path | None,
            ca: Path | None,  # noqa: ARG001 - exported already
            operator_token_file: Path | None = None,
            as_json: bool,
            **arguments: Any,
        ) -> None:
            session = ServerSession(server, token_file, operator_token_file, as_json=as_json)
            with closing(session):
                try:
                    output = command(session, **arguments)
                except RequestRefused as refusal:
                    if not as_json:
                        raise
                    print_json(refusal.document)
                    raise typer.Exit(1) from None
                if output is not None:
                    print_output(output, as_json=as_json)

        return _with_parameters(run, [*_parameters(command)[1:], *options])

    return decorate


def json_command(json_help: str) -> Callable[[Callable[..., Output]], Command]:
    """Adds --json to a command that needs no server."""
    option = _json_option(json_help)

    def decorate(command: Callable[..., Output]) -> Command:
        @wraps(command)
        def run(*, as_json: bool, **arguments: Any) -> None:
            print_output(command(**arguments), as_json=as_json)

        return _with_parameters(run, [*_parameters(command), option])

    return decorate


def print_output(output: Output, *, as_json: bool) -> None:
    """Raises the error of the output, or with JSON typer.Exit."""
    if as_json:
        print_json(output.document)
    else:
        output.view()
    for note in output.notes:
        print(printable(note), file=sys.stderr)
    if output.error is not None:
        raise typer.Exit(1) if as_json else output.error


def _option(name: str, annotation: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _json_option(help_text: str) -> Parameter:
    annotation = Annotated[bool, typer.Option("--json", help=help_text)]
    return _option("as_json", annotation, default=False)


def _parameters(command: Callable[..., object]) -> list[Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())


def _with_parameters(run: Command, parameters: Sequence[Parameter]) -> Command:
    """typer reads the parameters of a command from its signature and annotations."""
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
