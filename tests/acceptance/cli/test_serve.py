"""`shiftboss serve`, and the token that guards it."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client import Client
from tests.commands import as_printed, running, shiftboss
from tests.running import RunningServer

TOKEN = "a-token-that-nobody-may-see"


@pytest.mark.requirement("SW-12")
def test_serve_prints_its_address_and_exits_cleanly(tmp_path: Path) -> None:
    database = tmp_path / "deep" / "down.db"
    with running("serve", "--port", "0", "--db", str(database), "--json") as serving:
        address = json.loads(serving.line())["address"]
        assert shiftboss("swarm", "create", "--id", "one", url=address).code == 0
        serving.signal(signal.SIGTERM)
        assert serving.end() == (0, "", "")
    assert database.exists()


@pytest.mark.requirement("SW-12")
def test_serve_takes_its_defaults_from_the_environment(tmp_path: Path) -> None:
    variables = {
        "SHIFTBOSS_HOST": "localhost",
        "SHIFTBOSS_PORT": "0",
        "SHIFTBOSS_DB": str(tmp_path / "other.db"),
        "SHIFTBOSS_TOKEN": TOKEN,
    }
    with running("serve", **variables) as serving:
        line = serving.line()
        address = line.removeprefix("listening on ").removesuffix("; stop with Ctrl-C")
        client = Client(address)
        assert client.get("/swarms").status_code == 401
        client.close()
        serving.signal(signal.SIGINT)
        ended = serving.end()
    page = f"SHIFTBOSS_DB={tmp_path / 'other.db'} shiftboss open"
    assert (ended.code, ended.out) == (0, f"Page: {page}\n")
    told, refused = ended.err.splitlines()
    # A variable that a shell has for its clients does not lock a local server in silence.
    assert told.startswith("SHIFTBOSS_TOKEN is set: this server requires that token of every")
    assert told.endswith(": env -u SHIFTBOSS_TOKEN shiftboss serve")
    assert "refused actor=unknown client=127.0.0.1 method=GET" in refused
    assert (tmp_path / "other.db").exists()


@pytest.mark.requirement("SW-12")
def test_a_taken_port_is_a_one_line_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = shiftboss("serve", "--port", port, "--db", str(tmp_path / "x.db"))
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use; "
        "another program may use it; choose another --port\n"
    )


@pytest.mark.requirement("SW-12")
def test_a_database_in_use_by_another_server_is_a_one_line_error(server: RunningServer) -> None:
    done = shiftboss("serve", "--port", "0", "--db", server.database)
    assert (done.code, done.out) == (1, "")
    assert done.err == (f"a server is using {server.database}; stop it, or choose another --db\n")


@pytest.mark.requirement("SW-12")
def test_an_impossible_database_path_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    database = tmp_path / "file" / "x.db"
    done = shiftboss("serve", "--port", "0", "--db", str(database))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"cannot use the folder {database.parent}: ")
    assert done.err.count("\n") == 1


@pytest.mark.requirement("SW-12")
def test_a_folder_in_place_of_the_database_is_a_one_line_error(tmp_path: Path) -> None:
    done = shiftboss("serve", "--port", "0", "--db", str(tmp_path), "--state", str(tmp_path / "s"))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"cannot open {tmp_path}: ")
    assert done.err.count("\n") == 1


@pytest.mark.requirement("HO-09", "OWN-02")
def test_the_key_and_the_operators_token_are_private_files_in_the_state_folder(
    tmp_path: Path,
) -> None:
    command = ("serve", "--port", "0", "--db", str(tmp_path / "x.db"), "--state")
    for name, variables, files in (
        ("own", {}, [".gitignore", "operator-token", "receipt-key.pem"]),
        ("given", {"SHIFTBOSS_OPERATOR_TOKEN": TOKEN}, [".gitignore", "receipt-key.pem"]),
    ):
        with running(*command, str(tmp_path / name), **variables) as serving:
            assert serving.line().startswith("listening on ")
            assert serving.line().startswith(
                f"Page: SHIFTBOSS_DB={tmp_path / 'x.db'} shiftboss open"
            )
            serving.signal(signal.SIGTERM)
            assert serving.end() == (0, "", "")
        private = [one for one in sorted((tmp_path / name).iterdir()) if one.is_file()]
        assert [one.name for one in private] == files
        assert {one.stat().st_mode & 0o777 for one in private} == {0o600}


@pytest.mark.requirement("OWN-04")
@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "shiftboss open"),
        (["--db", "a folder/x.db"], "SHIFTBOSS_DB='{0}/a folder/x.db' shiftboss open"),
        (["--state", "kept"], "shiftboss open --operator-token-file {0}/kept/operator-token"),
    ],
)
def test_the_command_that_opens_the_page_works_as_printed(
    tmp_path: Path, arguments: list[str], printed: str
) -> None:
    with running("serve", "--port", "0", *arguments, folder=tmp_path) as serving:
        address = serving.line().split()[2].rstrip(";")
        command = serving.line().removeprefix("Page: ")
        assert command == printed.format(tmp_path)
        opened = as_printed(command, "--print", folder=tmp_path)
        assert opened.out.startswith(f"{address}/login#"), opened
        serving.signal(signal.SIGTERM)
        assert serving.end() == (0, "", "")


@pytest.mark.requirement("OWN-04")
def test_the_command_that_opens_the_page_of_a_server_on_postgres_works_as_printed(
    postgres_url: str, tmp_path: Path
) -> None:
    state = tmp_path / "kept"
    arguments = ("--port", "0", "--db", postgres_url, "--state", str(state))
    with running("serve", *arguments, folder=tmp_path) as serving:
        address = serving.line().split()[2].rstrip(";")
        command = serving.line().removeprefix("Page: ")
        assert postgres_url not in command
        opened = as_printed(command, "--print", folder=tmp_path)
        assert opened.out.startswith(f"{address}/login#"), opened
        serving.signal(signal.SIGTERM)
        assert serving.end().code == 0


@pytest.mark.requirement("SW-12")
def test_a_public_address_needs_a_token(tmp_path: Path) -> None:
    arguments = ("serve", "--host", "0.0.0.0", "--port", "0", "--db", str(tmp_path / "x.db"))
    done = shiftboss(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("0.0.0.0 can be reached from other machines, so a token is needed; ")


@pytest.fixture
def guarded(sqlite_path: str) -> Iterator[RunningServer]:
    server = RunningServer(sqlite_path, token=TOKEN)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.mark.requirement("SW-13")
def test_a_token_comes_from_the_environment_or_a_private_file(
    guarded: RunningServer, tmp_path: Path
) -> None:
    listing = ("swarm", "list", "--json")
    without = shiftboss("swarm", "list", url=guarded.url)
    assert (without.code, without.out) == (1, "")
    assert without.err.startswith("this server needs a token; ")
    assert shiftboss(*listing, url=guarded.url, SHIFTBOSS_TOKEN=TOKEN).code == 0
    file = tmp_path / "token"
    file.write_text(f"\n {TOKEN}\n")
    file.chmod(0o600)
    with_file = (*listing, "--token-file", str(file))
    assert shiftboss(*with_file, url=guarded.url, SHIFTBOSS_TOKEN="wrong").code == 0


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize("command", [("swarm", "list"), ("serve", "--port", "0")], ids=" ".join)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_token_file_that_others_can_read_is_refused(
    tmp_path: Path, command: tuple[str, ...], mode: int
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(mode)
    done = shiftboss(*command, "--token-file", str(file))
    assert done == (1, "", f"{file} can be read by other users; run: chmod 600 {file}\n")


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize("content", [b"", b" \n", b"a\0b\nc", "Größe".encode(), b"\xff\x00"])
def test_a_token_file_without_a_usable_token_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    done = shiftboss("status", "--token-file", str(file))
    assert (done.code, done.out) == (1, "")
    assert str(file) in done.err
    assert done.err.count("\n") == 1


@pytest.mark.requirement("SW-13")
def test_a_missing_token_file_is_a_one_line_error(tmp_path: Path) -> None:
    file = tmp_path / "none"
    done = shiftboss("status", "--token-file", str(file))
    assert done == (1, "", f"cannot read the token file {file}: No such file or directory\n")


@pytest.mark.requirement("SW-13")
@pytest.mark.parametrize("command", [("serve",), ("status",), ("swarm", "create")], ids=" ".join)
def test_help_does_not_show_the_token(command: tuple[str, ...]) -> None:
    done = shiftboss(*command, "--help", SHIFTBOSS_TOKEN=TOKEN)
    assert done.code == 0
    assert TOKEN not in done.out + done.err
