"""shiftboss open: opens the page in a browser, logged in."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import urlsplit

import typer

from shiftboss.cli.common.client import NoServer, NotShiftboss, parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.discovery import here_command, serve_command
from shiftboss.cli.common.output import print_line
from shiftboss.cli.common.tokens import (
    AgentIsNotOperator,
    is_agent,
    operator_token_from_environment,
    read_server_token,
)
from shiftboss.system.loopback import is_loopback


@server_command(operator=True)
def open_page(
    session: ServerSession,
    swarm: Annotated[str | None, typer.Argument(metavar="SWARM", help="The swarm to show.")] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print the link, for another machine or browser.")
    ] = False,
) -> Output:
    """Open the page in a browser, logged in (as the operator, or as the owner of a token).

    The link works once, within ten minutes. The session is that of the token which asks for it,
    and lasts a week; `shiftboss token list` shows it. If no server is running, the command serves
    the page itself until Ctrl-C.
    """
    database = session.offline_database
    if database is not None:
        return _serve_page(session, database, swarm, print_only)
    body = {} if swarm is None else {"swarm_id": swarm}
    answer = parse_answer(session.post_as_operator("create_login", body), "url")
    url = reachable(str(answer["url"]), session.client.address)
    return Output.of(answer | {"url": url}, lambda: _show(url, print_only))


def _show(url: str, print_only: bool) -> None:
    if print_only or not sys.stdout.isatty() or not webbrowser.open(url):
        print_line(url)
    else:
        again = here_command("shiftboss open --print")
        print_line(f"opened {_without_code(url)}; in another browser: {again}")


def _serve_page(
    session: ServerSession, database: Path, swarm: str | None, print_only: bool
) -> NoReturn:
    """Serve the data on disk, in the foreground, so that no server is left running unnoticed.
    A script that waits for the link would wait forever, so it gets an error."""
    if is_agent():
        raise AgentIsNotOperator
    if session.as_json or not sys.stdout.isatty():
        raise NoServer(
            "the page needs a server, and none is running here",
            hint=f"start one with `{serve_command()}`, then try again",
        )
    from shiftboss.server.run import serve
    from shiftboss.server.settings import ServerSettings
    from shiftboss.system.logs import LogSettings, start_logs
    from shiftboss.system.private_environment import hide_secrets

    hide_secrets()
    start_logs(LogSettings())
    settings = ServerSettings(
        database,
        token=read_server_token(None),
        operator_token=operator_token_from_environment(),
        any_port_if_taken=True,
    )
    serve(settings, _announce, None, lambda url: _show(url, print_only), swarm)
    raise typer.Exit


def _announce(address: str) -> None:
    print_line(f"no server was running here: serving the page on {address} until Ctrl-C")


def reachable(url: str, address: str) -> str:
    """The link, at the address by which this command has reached the server: a server that does not
    know its public address names that of its own machine. Raises NotShiftboss for what a browser
    would read as anything else than a page of a server, such as a file or a program."""
    try:
        parts, ours = urlsplit(url), urlsplit(address)
        is_page = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_page = False
    if not is_page or not url.isascii() or not url.isprintable() or set(url) & set(" \"'`\\@"):
        raise NotShiftboss(f"the server at {address} gave no link to its page: {url}")
    if is_loopback(parts.hostname or "") and not is_loopback(ours.hostname or ""):
        return parts._replace(scheme=ours.scheme, netloc=ours.netloc).geturl()
    return url


def _without_code(url: str) -> str:
    return urlsplit(url)._replace(path="/", fragment="").geturl()
