"""Look for secrets in all files that git tracks: `python -m tools.secret_scan`. Needs no network.

It knows the forms that services give their tokens, private keys, and passwords in addresses. A line
with a made-up secret says so: `not a secret` in a comment, or an entry in `_EXAMPLES`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from tools.lock_file import ROOT

ALLOWED: Final = b"not a secret"
FILE_BYTES_MAX: Final = 5_000_000
# Of one file: whoever has found so many looks at the file.
MATCHES_MAX: Final = 50
COMMENT_BYTES_MAX: Final = 300
_FORMS: Final = {
    "a private key": rb"-----BEGIN (?:[A-Z]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    rb"\s*[A-Za-z0-9+/=\\n]{16}",
    "a key of Anthropic": rb"sk-ant-[a-z0-9]{1,20}-[A-Za-z0-9_-]{20,200}",
    "a key of OpenAI": rb"sk-(?:proj-)?[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,200}",
    "a key of AWS": rb"(?:AKIA|ASIA)[0-9A-Z]{16}",
    "a key of Google": rb"AIza[0-9A-Za-z_-]{35}",
    "a token of GitHub": rb"(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,100})",
    "a token of GitLab": rb"glpat-[A-Za-z0-9_-]{20}",
    "a token of Shiftboss": rb"sbt_[A-Za-z0-9_-]{43}",
    "a token of npm": rb"npm_[A-Za-z0-9]{36}",
    "a token of PyPI": rb"pypi-AgE[A-Za-z0-9_-]{50,300}",
    "a token of Slack": rb"xox[abeoprs]-[A-Za-z0-9-]{20,200}",
    "a key of Stripe": rb"[rs]k_live_[A-Za-z0-9]{20,200}",
    "a JSON web token": rb"eyJ[A-Za-z0-9_-]{15,2000}"
    rb"\.eyJ[A-Za-z0-9_-]{15,2000}\.[A-Za-z0-9_-]{20,200}",
    "a password in an address": rb"://[^\s:/@'\"{}<>]{1,60}:[^\s:/@'\"{}<>]{3,60}@",
}
_ANY: Final = re.compile(
    b"|".join(b"(?P<f%d>%s)" % (number, form) for number, form in enumerate(_FORMS.values()))
)
# Made-up addresses in tests and docs.
_EXAMPLES: Final = re.compile(
    rb"://(?:user|someone|me|postgres|ada)[\w.-]*:(?:[\w.*-]*(?:password|pw|secret|hunter|word)|geheim)",
    re.IGNORECASE,
)


class FoundSecret(NamedTuple):
    """The secret itself is not repeated: the output may be kept."""

    file: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}"


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - as every target of the Makefile
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    files = [name for name in listed.stdout.decode().split("\0") if name]
    found = [secret for name in files for secret in scan_file(ROOT / name, name)]
    for secret in found:
        print(secret)
    if not found:
        print(f"secret scan: none in {len(files)} files")
    return 1 if found else 0


def scan_file(path: Path, name: str) -> list[FoundSecret]:
    """A link is scanned where it points to, if that is a file of the repository."""
    if path.is_symlink() or not path.is_file():
        return []
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX)
    return list(scan(content, name))


def scan(content: bytes, name: str) -> Iterator[FoundSecret]:
    kinds = list(_FORMS)
    for match in islice(_ANY.finditer(content), MATCHES_MAX):
        rest_of_line = content[match.end() : match.end() + COMMENT_BYTES_MAX].partition(b"\n")[0]
        if ALLOWED in rest_of_line or _EXAMPLES.search(match.group()):
            continue
        assert match.lastgroup is not None
        number = content.count(b"\n", 0, match.start()) + 1
        yield FoundSecret(name, number, kinds[int(match.lastgroup[1:])])


if __name__ == "__main__":
    sys.exit(main())
