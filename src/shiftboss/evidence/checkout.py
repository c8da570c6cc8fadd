"""A fresh folder with the files of one commit, and nothing of the worker's."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.evidence.mirror import Mirror
from shiftboss.system.background_delete import Disposal
from shiftboss.system.git import checked, git

CHECKOUT_SECONDS: Final = 300.0

# Attributes of the commit may name filters; without a configuration for them they do nothing.
_CONFIG: Final = """\
[core]
	repositoryformatversion = 0
	bare = false
	hooksPath = /dev/null
	symlinks = true
	fileMode = true
[gc]
	auto = 0
[maintenance]
	auto = false
"""


class Checkout(NamedTuple):
    """`home` is an empty folder beside the files, for what commands keep outside of them."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def home(self) -> Path:
        return self.folder / "home"


@asynccontextmanager
async def clean_checkout(
    mirror: Mirror, commit: str, disposal: Disposal
) -> AsyncIterator[Checkout]:
    """The files of the commit, in a repository of their own with the commit as its HEAD.

    They lie in the folder of `disposal`, which has them removed afterwards.
    """
    checkout = Checkout(disposal.folder / uuid.uuid4().hex)
    try:
        await asyncio.to_thread(_prepare, checkout, mirror.path, commit)
        async with disposal.writing:
            await _write_files(checkout, commit)
        yield checkout
    finally:
        await disposal.throw_away(checkout.folder)


async def _write_files(checkout: Checkout, commit: str) -> None:
    said = await git(
        ["-c", "checkout.workers=1", "read-tree", "--reset", "-u", commit],
        checkout.files,
        seconds=CHECKOUT_SECONDS,
        environment={
            "GIT_DIR": str(checkout.files / ".git"),
            "GIT_WORK_TREE": str(checkout.files),
        },
    )
    checked(said, f"the checkout of {commit}")


def _prepare(checkout: Checkout, mirror: Path, commit: str) -> None:
    """The objects stay in the mirror; new ones are written here."""
    own = checkout.files / ".git"
    (own / "objects" / "info").mkdir(parents=True)
    (own / "refs" / "heads").mkdir(parents=True)
    (own / "objects" / "info" / "alternates").write_text(f"{mirror.resolve() / 'objects'}\n")
    (own / "config").write_text(_CONFIG)
    (own / "HEAD").write_text(f"{commit}\n")
    checkout.home.mkdir()
