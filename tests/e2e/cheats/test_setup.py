"""Setup commands run code of the worker: afterwards the checkout must still be the commit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.handoffs import HeldOutTests
from tests.repos import UNCONTAINED, Repo, refused_paths, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("OWN-16", "HO-05")

SETUP = "python3 src/auth/prepare.py"
CHECK = "Command passes: python3 tests/check.py"
OWNED = ["src/auth/"]
PATHS = "from pathlib import Path\n"
SAME_SIZE_AND_TIME = """
import os
file = Path("tests/check.py")
before = file.stat()
file.write_text("import random\\nassert 0\\n")
os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
"""
PLUGIN = """
Path("x.egg-info").mkdir()
Path("x.egg-info/entry_points.txt").write_text("[pytest11]\\nx = auth.login\\n")
"""
OTHER_CONFIGURATION = """
with Path(".git/config").open("a") as config:
    config.write("[core]\\nfsmonitor = touch fooled\\nexcludesFile = all\\n")
Path(".git/info").mkdir()
Path(".git/info/exclude").write_text("*")
Path(".git/index").unlink()
Path("new.txt").touch()
"""
COPIED = "python3 copy_tests.py"
COPY = (
    "import shutil\nshutil.copytree('tests', 'build/tests', dirs_exist_ok=True)\n"
    "shutil.copytree('src', 'build/src', dirs_exist_ok=True)\n"
)
RUNS_COPY = "Tests pass: python3 -m unittest discover -s build -t build -p test_*.py"
SUMS_TEST = (
    "import unittest\nfrom src.auth.sums import square\n\n\nclass Sums(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(square(1), 1)\n\n"
    "    def test_{name}(self):\n        self.assertEqual(square({n}), {expected})\n"
)
SQUARE = "def square(n):\n    return n * n\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo")
    ignored = "*.log\nnode_modules/\n*.egg-info/\nlib/\n"
    files = {"tests/check.py": "import random\nassert 1\n", ".gitignore": ignored}
    repo.base = repo.commit("set up", files | {"src/auth/prepare.py": "pass\n"})
    return repo


def verified(tmp_path: Path, repo: Repo, program: str, *, waived: str | None = None) -> Verdict:
    repo.commit("work", {"src/auth/prepare.py": PATHS + program})
    job = repo.job(
        owned=OWNED,
        criteria=[CHECK],
        policy={"setup": [SETUP]},
        waivers=[waiver("setup", waived)] if waived else [],
    )
    (verdict,) = verify(tmp_path, job)
    return verdict


@pytest.mark.parametrize(
    ("program", "refused"),
    [
        ("Path('tests/check.py').write_text('')", "tests/check.py"),
        ("Path('tests/check.py').unlink()", "tests/check.py"),
        ("Path('tests/check.py').chmod(0o755)", "tests/check.py"),
        (SAME_SIZE_AND_TIME, "tests/check.py"),
        ("Path('random.py').touch()", "random.py"),
        ("Path('lib').mkdir()\nPath('lib/random.py').touch()", "lib/random.py"),
        (
            "Path('tests/.gitignore').write_text('*')\nPath('tests/extra.py').touch()",
            "tests/.gitignore",
        ),
        (OTHER_CONFIGURATION, "new.txt"),
        (PLUGIN, "x.egg-info/"),
    ],
)
def test_a_setup_that_alters_the_checkout_is_refused(
    tmp_path: Path, repo: Repo, program: str, refused: str
) -> None:
    verdict = verified(tmp_path, repo, program)
    assert not verdict.accepted
    assert refused in refused_paths(verdict)
    assert {violation.check for violation in verdict.violations} == {"setup"}
    assert verdict.checks[-1].outcome == "unverifiable"


def test_what_set_up_tools_make_is_accepted(tmp_path: Path, repo: Repo) -> None:
    """Packages, the metadata of an editable installation, logs; and a file that is rewritten as it
    was."""
    program = (
        "for name in ('node_modules/left', 'src/x.egg-info', '.venv/lib', 'src/__pycache__'):\n"
        "    Path(name).mkdir(parents=True)\n    Path(name, 'made.py').touch()\n"
        "Path('install.log').touch()\nfile = Path('tests/check.py')\n"
        "file.write_text(file.read_text())\n"
    )
    verdict = verified(tmp_path, repo, program)
    assert verdict.accepted, verdict.violations


@pytest.mark.parametrize(("content", "accepted"), [("large", True), ("other", False)])
def test_a_large_file_may_take_the_place_of_its_pointer(
    tmp_path: Path, repo: Repo, content: str, accepted: bool
) -> None:
    """Git LFS: the pointer has the hash of the file."""
    digest = hashlib.sha256(b"large").hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 5\n"
    repo.base = repo.commit("a large file", {"data.bin": pointer})
    verdict = verified(tmp_path, repo, f"Path('data.bin').write_text({content!r})")
    assert verdict.accepted == accepted, verdict.violations


def test_forged_bytecode_is_removed(tmp_path: Path, repo: Repo) -> None:
    """It carries the time and the size of a source that cannot pass."""
    repo.base = repo.commit(
        "a check that fails",
        {"tests/check.py": "import verdict\nassert verdict.GOOD\n", "tests/verdict.py": "GOOD=0\n"},
    )
    program = (
        "import importlib._bootstrap_external as external, importlib.util, os\n"
        "source = Path('tests/verdict.py')\nstatus = source.stat()\n"
        "code = compile('GOOD=1\\n', str(source), 'exec')\n"
        "forged = external._code_to_timestamp_pyc(code, int(status.st_mtime), status.st_size)\n"
        "target = Path(importlib.util.cache_from_source(str(source)))\n"
        "target.parent.mkdir()\ntarget.write_bytes(forged)\n"
    )
    verdict = verified(tmp_path, repo, program)
    assert [violation.check for violation in verdict.violations] == ["criterion"]


def test_the_operator_can_waive_it(tmp_path: Path, repo: Repo) -> None:
    verdict = verified(tmp_path, repo, "Path('made.txt').touch()", waived="made.txt")
    assert verdict.accepted, verdict.violations
    assert [check.outcome for check in verdict.checks[5:]] == ["passed", "waived", "passed"]


def test_a_checkout_that_cannot_be_compared_is_refused(tmp_path: Path, repo: Repo) -> None:
    """Without a sandbox, the setup could put a repository of its own where ours is created."""
    planted = "Path('../comparison/objects/info').mkdir(parents=True)"
    repo.commit("work", {"src/auth/prepare.py": PATHS + planted})
    policy = UNCONTAINED | {"setup": [SETUP]}
    (verdict,) = verify(tmp_path, repo.job(owned=OWNED, criteria=[CHECK], policy=policy))
    (violation,) = verdict.violations
    assert (violation.check, "comparison" in violation.message) == ("setup", True)


def copying_repo(repo: Repo) -> Repo:
    """Its criterion runs the copies that the setup makes of the tests."""
    files = {
        "copy_tests.py": COPY,
        "tests/__init__.py": "",
        "tests/test_sums.py": SUMS_TEST.format(name="two", n=2, expected=4),
        "src/__init__.py": "",
        "src/auth/__init__.py": "",
        "src/auth/sums.py": "def square(n):\n    return [0, 1, 4][n]\n",
        ".gitignore": "build/\n",
    }
    repo.base = repo.commit("copied tests", files)
    return repo


def verified_copies(
    tmp_path: Path, repo: Repo, held_out: HeldOutTests | None = None, **policy: object
) -> Verdict:
    job = repo.job(
        owned=["src/auth/", "tests/"],
        criteria=[RUNS_COPY],
        policy={"setup": [COPIED], "mutants": "off"} | policy,
        held_out=held_out,
    )
    (verdict,) = verify(tmp_path, job)
    return verdict


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {check.check: check.outcome for check in verdict.checks[4:]}


@pytest.mark.requirement("OWN-13", "OWN-14")
def test_tests_that_the_setup_copies_are_sabotaged_and_held_out_too(
    tmp_path: Path, repo: Repo
) -> None:
    copying_repo(repo).commit("work", {"src/auth/sums.py": SQUARE})
    hidden = {"tests/test_more.py": SUMS_TEST.format(name="five", n=5, expected=25)}
    verdict = verified_copies(tmp_path, repo, HeldOutTests(files=hidden))
    assert verdict.accepted, verdict.violations
    assert outcomes(verdict)["canary"] == "passed"
    assert outcomes(verdict)["held_out"] == "passed"


@pytest.mark.requirement("OWN-15")
def test_tests_that_the_setup_copies_are_run_as_they_were_at_the_base(
    tmp_path: Path, repo: Repo
) -> None:
    changed = {
        "src/auth/sums.py": "def square(n):\n    return n\n",
        "tests/test_sums.py": SUMS_TEST.format(name="two", n=2, expected=2),
    }
    copying_repo(repo).commit("expect less", changed)
    verdict = verified_copies(tmp_path, repo, canaries="off")
    assert [violation.check for violation in verdict.violations] == ["base_tests"]


@pytest.mark.requirement("OWN-13")
def test_a_setup_that_fails_with_sabotaged_tests_does_not_prevent_the_canaries(
    tmp_path: Path, repo: Repo
) -> None:
    copying_repo(repo)
    fails_if_touched = (
        "import sys\nfrom pathlib import Path\n"
        "text = Path('tests/test_sums.py').read_bytes()\n"
        f"sys.exit(len(text) != {len(SUMS_TEST.format(name='two', n=2, expected=4))})\n"
    )
    exits = "import atexit, os\natexit.register(os._exit, 0)\n"
    repo.commit("work", {"src/auth/sums.py": exits + SQUARE, "src/auth/p.py": fails_if_touched})
    job = repo.job(
        owned=["src/auth/"],
        criteria=["Tests pass: python3 -m unittest discover -s tests -t ."],
        policy={"setup": ["python3 src/auth/p.py"], "mutants": "off"},
    )
    (verdict,) = verify(tmp_path, job)
    assert [violation.check for violation in verdict.violations] == ["canary"]
