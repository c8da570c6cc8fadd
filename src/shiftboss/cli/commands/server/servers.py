"""shiftboss servers: shows the servers on a database and what they share."""

from __future__ import annotations

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.times import now


@server_command(operator=True)
def servers(session: ServerSession) -> Output:
    """Show the servers on the database, in what they differ, and the leader (operator)."""
    document = session.call_as_operator("show_deployment", DEFAULT_SWARM)

    def view() -> None:
        from shiftboss.cli.views.deployment import deployment_lines, servers_table

        answer = parse_answer(document, "servers")
        show(servers_table(answer["servers"], now()))
        for line in deployment_lines(answer):
            print_line(line)

    return Output(document, view)
