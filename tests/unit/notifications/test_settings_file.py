"""The operator's file of channels."""

from __future__ import annotations

import pytest

from shiftboss.protocol.notifications.settings import NotifySettings
from shiftboss.rules.notifications.settings_file import (
    InvalidNotifySettings,
    read_notify_settings,
    url_problem,
)
from shiftboss.system.loopback import is_loopback

pytestmark = pytest.mark.requirement("OWN-20")


def read(text: str) -> NotifySettings:
    return read_notify_settings(text, "notify.yaml", is_loopback)


def problems(text: str) -> str:
    with pytest.raises(InvalidNotifySettings) as error:
        read(text)
    lines = error.value.facts["problems"]
    assert isinstance(lines, list)
    return "\n".join(map(str, lines))


def test_a_file_with_all_kinds_of_channels() -> None:
    settings = read("""
channels:
  desk: {kind: desktop, kinds: [question, halt]}
  script: {kind: command, command: [tell-me, --loud], timeout: 5s}
  phone:
    kind: webhook
    url: https://hooks.example.com/in
    secret_file: hook-secret
  team: {kind: slack, url_variable: SLACK_URL, per_minute: 2}
quiet: {start: 22:00, end: "07:30", zone: Europe/Berlin, urgent: [halt]}
""")
    assert list(settings.channels) == ["desk", "script", "phone", "team"]
    assert settings.channels["desk"].kinds == ["question", "halt"]
    assert "verdict" not in settings.channels["phone"].kinds
    assert settings.quiet is not None
    assert (settings.quiet.start, settings.quiet.end) == (22 * 60, 7 * 60 + 30)


def test_an_empty_file_has_no_channels() -> None:
    assert read("") == NotifySettings()


def test_every_problem_is_told_with_its_line() -> None:
    told = problems("""channels:
  a: {kind: command}
  b: {kind: webhook, url: https://x.example}
  c: {kind: slack}
  d: {kind: desktop, url: https://x.example}
  e: {kind: slack, url: https://x.example, url_file: f}
  f: {kind: pigeon}
quiet: {start: 25:00, end: 07:00, zone: Mars/Olympus}
""")
    for line in (
        "notify.yaml:2: channels.a: needs a command",
        "notify.yaml:3: channels.b: needs a secret for its signatures",
        "notify.yaml:4: channels.c: needs an address",
        "notify.yaml:5: channels.d.url: has no meaning for a channel of the kind desktop",
        "notify.yaml:6: channels.e.url_file: is given as url as well",
        "notify.yaml:7: channels.f.kind: ",
        "notify.yaml:8: quiet.start: ",
        "notify.yaml:8: quiet.zone: is not a time zone",
    ):
        assert line in told, told


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/in",
        "http://169.254.169.254/latest/meta-data",
        "https://user:pw@hooks.example.com/",
        "https://",
        "https://host:99999999/",
        "file:///etc/passwd",
        "https://hooks.example.com/a b",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    assert url_problem(url, is_loopback) is not None


@pytest.mark.parametrize("url", ["https://hooks.example.com/in?x=1", "http://127.0.0.1:8000/"])
def test_addresses_that_are_accepted(url: str) -> None:
    assert url_problem(url, is_loopback) is None
