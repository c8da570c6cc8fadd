"""shiftboss open: opens the page in a browser, logged in."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlsplit

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.output import print_line
from shiftboss.errors import ShiftbossError
from shiftboss.system.loopback import is_loopback


class NoServer(ShiftbossError):
    code = "no_server"
    title = "No server is running"


@server_command(operator=True)
def open_page(
    session: ServerSession,
    swarm: Annotated[str | None, typer.Argument(metavar="SWARM", help="The swarm to show.")] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print the link, for another machine or browser.")
    ] = False,
) -> Output:
    """Open the page in a browser, logged in (operator, or whoever has a token).

    The link works once, within ten minutes. The session is that of the token which asks for it,
    and lasts a week; `shiftboss token list` shows it.
    """
    if session.is_offline:
        raise NoServer(
            "the page needs a server, and none is running here",
            hint="start one with `shiftboss serve`, then try again",
        )
    body = {} if swarm is None else {"swarm_id": swarm}
    answer = parse_answer(session.post_as_operator("create_login", body), "url")
    url = reachable(str(answer["url"]), session.client.address)

    def view() -> None:
        if print_only or not sys.stdout.isatty() or not webbrowser.open(url):
            print_line(url)
        else:
            print_line(f"opened {_without_code(url)}; in another browser: shiftboss open --print")

    return Output.of(answer | {"url": url}, view)


def reachable(url: str, address: str) -> str:
    """The link, at the address by which this command has reached the server: a server that does not
    know its public address names that of its own machine."""
    parts, ours = urlsplit(url), urlsplit(address)
    if is_loopback(parts.hostname or "") and not is_loopback(ours.hostname or ""):
        return parts._replace(scheme=ours.scheme, netloc=ours.netloc).geturl()
    return url


def _without_code(url: str) -> str:
    return urlsplit(url)._replace(path="/", fragment="").geturl()
