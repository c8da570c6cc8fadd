"""Two servers and a verifier, started as the units of the operations page say, in folders of the
test instead of those of the system."""

from __future__ import annotations

import re
import secrets
import shlex
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import psycopg

from tests.certificates import Authority, Pair
from tests.commands import Done, Running, environment, running
from tests.e2e.operations.page import EXAMPLES
from tests.fork_server import forked_command
from tests.postgres import Postgres
from tests.waiting import wait_until

SHELL_SECONDS: Final = 120
WAIT_SECONDS: Final = 30.0


class Service:
    """A unit of examples/operations. The folders of the system are below `folder`."""

    def __init__(self, unit: str, folder: Path, replaced: dict[str, str]) -> None:
        self.folder = folder
        folders = ("/etc/shiftboss", "/var/lib/shiftboss", "/var/log/shiftboss")
        self.replaced = {path: f"{folder}{path}" for path in folders} | replaced
        self._unit = (EXAMPLES / f"{unit}.service").read_text(encoding="utf-8")
        for path in (*folders, "/var/lib/shiftboss-verifier/.shiftboss"):
            Path(f"{folder}{path}").mkdir(mode=0o700, parents=True)
        (name,) = re.findall(r"^EnvironmentFile=/etc/shiftboss/(.*)$", self._unit, re.MULTILINE)
        self.settings_file = self.write(
            f"/etc/shiftboss/{name}", (EXAMPLES / name).read_text(encoding="utf-8")
        )
        self._context: AbstractContextManager[Running] | None = None

    def write(self, path: str, text: str) -> Path:
        return write_private(Path(f"{self.folder}{path}"), self.here(text))

    def here(self, text: str) -> str:
        """The same text with the names of this test."""
        for name, ours in self.replaced.items():
            text = text.replace(name, ours)
        return text

    def start(self) -> None:
        (line,) = re.findall(r"^ExecStart=(.*(?:(?<=\\)\n.*)*)$", self._unit, re.MULTILINE)
        program, *arguments = shlex.split(self.here(line.replace("\\\n", " ")))
        assert program == "/opt/shiftboss/bin/shiftboss"
        lines = shlex.split(self.settings_file.read_text(encoding="utf-8"))
        variables = dict(line.split("=", 1) for line in lines)
        variables["SHIFTBOSS_LOG_FILE"] = str(self.log_file)
        folder = f"{self.folder}/var/lib/shiftboss"
        self._context = running(*arguments, folder=folder, **variables)
        self.process = self._context.__enter__()

    @property
    def log_file(self) -> Path:
        return self.folder / "log"

    def log_count(self, text: str) -> int:
        return self.log_file.read_text().count(text) if self.log_file.exists() else 0

    def stop(self) -> None:
        self.process.signal(signal.SIGTERM)
        assert self.process.end().code == 0, self.log_file.read_text()
        self.close()

    def close(self) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)
            self._context = None


class Server(Service):
    address = ""

    def start(self) -> None:
        super().start()
        self.address = self.process.line().removeprefix("listening on ").split(";")[0]
        # The same port after the next start.
        port = self.address.rpartition(":")[2]
        settings = self.settings_file.read_text(encoding="utf-8")
        self.settings_file.write_text(settings.replace('PORT="0"', f'PORT="{port}"'))

    def reload(self) -> None:
        """As `systemctl reload` does. The certificates are the last that is read."""
        read = '"reload: certificates: read again"'
        before = self.log_count(read)
        self.process.signal(signal.SIGHUP)
        wait_until(lambda: self.log_count(read) > before, "it has read its files", WAIT_SECONDS)


class Deployment:
    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self._postgres = postgres
        self.name = f"shiftboss_{secrets.token_hex(4)}"
        self.work = folder / "work"
        self.home = folder / "home"
        for path in (self.work, self.home, folder / "bin"):
            path.mkdir()
        self._programs = folder / "bin"
        self._link_shiftboss()
        self._authority = Authority(folder)
        address = f"postgresql://{self.name}@/{self.name}?host={Path(postgres.socket).parent}"
        server_settings = {
            "postgresql://shiftboss@db.example.org/shiftboss?sslmode=verify-full": address,
            "0.0.0.0": "127.0.0.1",
            '"7432"': '"0"',
        }
        self.servers = [
            Server("shiftboss", folder / name, dict(server_settings)) for name in ("one", "two")
        ]
        for server in self.servers:
            certificate = self.new_certificate()
            server.write("/etc/shiftboss/tls.crt", certificate.cert.read_text())
            server.write("/etc/shiftboss/tls.key", certificate.key.read_text())
            server.write("/etc/shiftboss/pgpass", "")
        self._folder = folder
        self.verifier: Service | None = None

    def _link_shiftboss(self) -> None:
        """`shiftboss` in a shell, forked as all commands of the tests."""
        program = self._programs / "shiftboss"
        command = shlex.join(forked_command(["-m", "shiftboss.cli.main"]))
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
        (self._programs / "python3").symlink_to(sys.executable)

    def new_certificate(self) -> Pair:
        return self._authority.issue(secrets.token_hex(4))

    def start_servers(self, token: Path) -> None:
        for server in self.servers:
            server.write("/var/lib/shiftboss/operator-token", token.read_text())
            server.start()

    def start_verifier(self, token: Path) -> None:
        verifier = Service("shiftboss-verifier", self._folder / "verifier", {"%l": "verify-1"})
        verifier.replaced |= self._names_of_servers()
        verifier.settings_file.write_text(
            verifier.here(verifier.settings_file.read_text())
            + f'SHIFTBOSS_CA="{self._authority.file}"\n'
        )
        verifier.write("/var/lib/shiftboss-verifier/.shiftboss/token", token.read_text())
        verifier.start()
        self.verifier = verifier

    def _names_of_servers(self) -> dict[str, str]:
        return {
            f"https://boss-{number}.example.org:7432": server.address
            for number, server in enumerate(self.servers, start=1)
        }

    def close(self) -> None:
        for service in (*self.servers, self.verifier):
            if service is not None:
                service.close()
        for name in (f"{self.name}_drill", self.name):
            self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", "postgres")
        self._execute(f"DROP ROLE IF EXISTS {self.name}", "postgres")

    def sql(self, text: str) -> None:
        text = re.sub(r"\bshiftboss(_drill)?\b", rf"{self.name}\1", text)
        for statement in filter(None, map(str.strip, text.split(";"))):
            is_query = statement.startswith("SELECT")
            self._execute(statement, self.name if is_query else "postgres")

    def _execute(self, statement: str, database: str) -> None:
        with psycopg.connect(self._postgres.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def shell(self, text: str, server: Server | None = None, **variables: str) -> Done:
        """Run it as you on your machine, or as root on a server."""
        names = {
            "/etc/ssl/certs/our-authority.pem": str(self._authority.file),
            "|/shiftboss?|/shiftboss_drill?|": f"|/{self.name}?|/{self.name}_drill?|",
        } | self._names_of_servers()
        text = (server or self.servers[0]).here(text)
        for name, ours in names.items():
            text = text.replace(name, ours)
        path = f"{self._programs}:{environment()['PATH']}"
        variables |= {"PATH": path, "HOME": str(self.home), "GIT_CONFIG_GLOBAL": "/dev/null"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.work,
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=SHELL_SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def on_server(self, text: str, server: Server) -> str:
        """What a person would type as root there; systemctl is ours."""
        output, lines = "", []
        for line in [*text.splitlines(), "systemctl end"]:
            if not line.startswith("systemctl "):
                lines.append(line)
                continue
            output += succeeded(self.shell("\n".join(lines), server))
            lines = []
            systemctl = {"reload": server.reload, "stop": server.stop, "start": server.start}
            systemctl.get(line.split()[1], lambda: None)()
        return output


def write_private(file: Path, text: str) -> Path:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    return file


def succeeded(done: Done) -> str:
    assert done.code == 0, done
    return done.out
