"""Which URLs may name a repository."""

from __future__ import annotations

import pytest

from shiftboss.rules.paths.repo_urls import checked_url, is_url

pytestmark = pytest.mark.requirement("HO-04")


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/team/app.git",
        "http://127.0.0.1:8080/app",
        "https://[::1]:8443/app.git",
        "ssh://git@git.example.com:2222/team/app.git",
        "ssh://git.example.com/app",
        "git@git.example.com:team/app.git",
    ],
)
def test_a_url_of_a_repository_is_allowed_as_it_is(url: str) -> None:
    assert is_url(url)
    assert checked_url(url) == url


@pytest.mark.parametrize("url", ["file:///srv/my%20app.git", "file://localhost/srv/my%20app.git"])
def test_a_file_url_is_the_path(url: str) -> None:
    assert is_url(url)
    assert checked_url(url) == "/srv/my app.git"


@pytest.mark.parametrize("path", ["/srv/app", "app", "../app", "/srv/a@b:c", "core", "./a:b"])
def test_a_path_or_a_name_is_no_url(path: str) -> None:
    assert not is_url(path)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ext::sh -c 'touch /tmp/x'", "printable"),
        ("ext::sh", "transports"),
        ("fd::17", "transports"),
        ("http::https://host/x", "transports"),
        ("git://host/x", "transports"),
        ("file::x", "transports"),
        ("file://", "no path"),
        ("ftp://host/x", "transports"),
        ("file://elsewhere/srv/x", "transports"),
        ("https://user:secret-word@host/x", "credentials"),
        ("https://secret-word@host/x", "credentials"),
        ("ssh://user:secret-word@host/x", "credentials"),
        ("ssh://-oProxyCommand=x/y", "no host"),
        ("ssh://-oProxyCommand=x@host/y", "user"),
        ("-oProxyCommand=x@host:y", "letters and digits"),
        ("git@-oProxyCommand=x:y", "letters and digits"),
        ("git@host:-u", "no repository"),
        ("ssh://host/-u", "no repository"),
        ("https://host", "no repository"),
        ("https://host/", "no repository"),
        ("https://host:port/x", "no host"),
        ("https:///x", "no host"),
        ("https://host/a\nb", "printable"),
        ("https://host/" + "a" * 2000, "2000 characters"),
    ],
)
def test_options_commands_and_credentials_are_refused(url: str, reason: str) -> None:
    assert is_url(url)
    with pytest.raises(ValueError, match=reason) as refused:
        checked_url(url)
    assert "secret-word" not in str(refused.value)
