"""Small honest projects with unusual tests, for the verifier: none of them may be refused.

In each, `total` is wrong at the base. The work corrects it, and the tests notice.
"""

from __future__ import annotations

from typing import NamedTuple

UNITTEST = "Tests pass: python3 -m unittest test_it"

WRONG = "def total(numbers):\n    return len(numbers)\n"
RIGHT = "def total(numbers):\n    return sum(numbers)\n"
DOUBLE = "\n\ndef double(number):\n    return 2 * number\n"
HEADER = "import unittest\nfrom sums import double, total\n\n"
PLAIN = """\
class Sums(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([2, 3]), 5)
    def test_double(self):
        self.assertEqual(double(4), 8)
"""


class Project(NamedTuple):
    """The files of the base, and those that the work writes, or removes with None."""

    base: dict[str, str | bytes]
    work: dict[str, str | bytes | None]
    criterion: str = UNITTEST


def with_tests(text: str, criterion: str = UNITTEST, **files: str) -> Project:
    """A module `test_it` of the base, and other modules next to it."""
    modules: dict[str, str | bytes] = {f"{name}.py": source for name, source in files.items()}
    base = {"sums.py": WRONG + DOUBLE, "test_it.py": HEADER + text} | modules
    return Project(base, {"sums.py": RIGHT + DOUBLE}, criterion)


UNUSUAL_TESTS = {
    "async": with_tests("""\
import asyncio
async def later(value):
    await asyncio.sleep(0)
    return value

class Sums(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.numbers = await later([2, 3])
    async def test_total(self):
        self.assertEqual(await later(total(self.numbers)), 5)
    async def test_gather(self):
        self.assertEqual(await asyncio.gather(later(1), later(double(1))), [1, 2])
"""),
    "subtests": with_tests("""\
class Sums(unittest.TestCase):
    def test_total(self):
        for numbers, expected in (([2, 3], 5), ([], 0), ([-1], -1)):
            with self.subTest(numbers=numbers):
                self.assertEqual(total(numbers), expected)
    def test_double(self):
        with self.subTest("zero"):
            self.assertEqual(double(0), 0)
"""),
    "flaky but retried": with_tests("""\
ATTEMPTS = iter([1, 2, 5, 5, 5])
class Sums(unittest.TestCase):
    def test_total(self):
        for _ in range(3):
            try:
                self.assertEqual(total([next(ATTEMPTS)]), 5)
                break
            except AssertionError:
                continue
        else:
            self.fail("never right")
    def test_double(self):
        self.assertTrue(any(double(number) == 4 for number in range(3)))
"""),
    "processes": with_tests("""\
import subprocess, sys
class Sums(unittest.TestCase):
    def test_total(self):
        code = "from sums import total; print(total([2, 3]))"
        done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "5")
        self.assertEqual(done.returncode, 0)
    def test_exit_code(self):
        done = subprocess.run([sys.executable, "-S", "-c", "raise SystemExit(3)"])
        self.assertEqual(done.returncode, 3)
"""),
    "doctests": with_tests('''\
import doctest
def sum_of_pair():
    """
    >>> total([2, 3])
    5
    >>> double(3)
    6
    """
def load_tests(loader, tests, pattern):
    tests.addTests(doctest.DocTestSuite(__name__))
    return tests
class Sums(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(2), 4)
'''),
    "generated with setattr": with_tests("""\
class Sums(unittest.TestCase):
    pass
def make(numbers, expected):
    def test(self):
        self.assertEqual(total(numbers), expected)
    return test
for number in range(4):
    setattr(Sums, f"test_{number}", make([number, 2], number + 2))
"""),
    "generated with type()": with_tests("""\
def make(number):
    def test_total(self):
        self.assertEqual(total([number, number]), double(number))
    return type(f"Sums{number}", (unittest.TestCase,), {"test_total": test_total})
globals().update({f"Sums{number}": make(number) for number in (1, 2, 3)})
"""),
    "state of the module in order": with_tests("""\
NUMBERS = []
class Sums(unittest.TestCase):
    def test_1_first(self):
        NUMBERS.append(2)
        self.assertEqual(total(NUMBERS), 2)
    def test_2_second(self):
        self.assertEqual(total(NUMBERS), 2)
        NUMBERS.append(double(2))
        self.assertEqual(total(NUMBERS), 6)
    def test_3_third(self):
        self.assertEqual(total(NUMBERS), 6)
        self.assertEqual(NUMBERS.pop(), 4)
    def test_4_fourth(self):
        self.assertEqual(total(NUMBERS), 2)
"""),
    "mixins": with_tests("""\
class Totals:
    def test_total(self):
        self.assertEqual(total(self.make([2, 3])), 5)
    def test_empty(self):
        self.assertEqual(total(self.make([])), 0)
class Lists(Totals, unittest.TestCase):
    make = list
class Tuples(Totals, unittest.TestCase):
    make = tuple
    def test_empty(self):
        self.assertFalse(total(()))
class MoreTuples(Tuples):
    def test_double(self):
        self.assertEqual(double(1), 2)
"""),
    "abstract base class": with_tests("""\
class Base(unittest.TestCase):
    numbers = None
    def setUp(self):
        if self.numbers is None:
            self.skipTest("only for inheritance")
    def test_total(self):
        self.assertEqual(total(self.numbers), 5)
class Pairs(Base):
    numbers = [2, 3]
class Triples(Base):
    numbers = [1, 2, 2]
"""),
    "mixin of another module": with_tests(
        "from shared import Totals\nclass Lists(Totals, unittest.TestCase):\n"
        "    def test_double(self):\n        self.assertEqual(double(1), 2)\n"
        "class Again(Totals, unittest.TestCase):\n    pass\n",
        shared="from sums import total\nclass Totals:\n    def test_total(self):\n"
        "        self.assertEqual(total([2, 3]), 5)\n",
    ),
    "set-up and tear-down": with_tests("""\
def setUpModule():
    global NUMBERS
    NUMBERS = [2]
def tearDownModule():
    assert NUMBERS == [2, 3]
class Sums(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        NUMBERS.append(3)
    def setUp(self):
        self.addCleanup(self.assertEqual, len(NUMBERS), 2)
    def test_total(self):
        self.assertEqual(total(NUMBERS), 5)
    def test_double(self):
        self.assertEqual(double(NUMBERS[0]), 4)
"""),
    "skipped and expected to fail at the base": with_tests("""\
class Sums(unittest.TestCase):
    @unittest.skip("not on this machine")
    def test_skipped(self):
        self.assertEqual(total([2, 3]), 6)
    @unittest.expectedFailure
    def test_known(self):
        self.assertEqual(double(1), 3)
    def test_total(self):
        self.assertEqual(total([2, 3]), 5)
    def test_exit(self):
        if total([1]) != 1:
            return
        self.assertEqual(double(1), 2)
"""),
    "own source": with_tests("""\
import inspect, pathlib, sys
HERE = sys._getframe().f_lineno
class Sums(unittest.TestCase):
    def test_total(self):
        lines = pathlib.Path(__file__).read_text().splitlines()
        self.assertTrue(lines[HERE - 1].startswith("HERE = "))
        self.assertEqual(total([2, 3]), 5)
    def test_lines(self):
        self.assertEqual(inspect.getsourcelines(Sums.test_lines)[1], 11)
    def test_double(self):
        self.assertIn("double(1)", inspect.getsource(Sums.test_double))
        self.assertEqual(double(1), 2)
"""),
    "assertions in helpers": with_tests("""\
class Sums(unittest.TestCase):
    def check(self, numbers, expected):
        self.assertEqual(total(numbers), expected)
    def test_total(self):
        self.check([2, 3], 5)
        self.check([], 0)
    def test_double(self):
        with self.assertRaises(TypeError):
            double(None)
    def test_nothing(self):
        pass
"""),
    "discovered": with_tests(PLAIN, UNITTEST.replace("test_it", "discover")),
    "processes that fork, and threads": with_tests("""\
import os
from concurrent.futures import ThreadPoolExecutor
class Sums(unittest.TestCase):
    def test_fork(self):
        child = os.fork()
        if child == 0:
            os._exit(total([2, 3]))
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 5)
    def test_threads(self):
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(total, [[1], [2, 3]]))
        self.assertEqual(sums, [1, 5])
    def test_result(self):
        with ThreadPoolExecutor(1) as pool:
            self.assertEqual(pool.submit(double, 2).result(), 4)
"""),
    "mocks of the system, and another folder": with_tests("""\
import os, time, io, builtins, tempfile
from contextlib import redirect_stdout
from unittest import mock
class Sums(unittest.TestCase):
    @mock.patch("time.time", return_value=0)
    @mock.patch.dict(os.environ, clear=True)
    def test_clock_and_environment(self, clock):
        self.assertEqual(total([time.time(), len(os.environ), 5]), 5)
    def test_output(self):
        with redirect_stdout(io.StringIO()) as output:
            print(total([2, 3]))
        self.assertEqual(output.getvalue(), "5\\n")
    def test_files(self):
        with mock.patch.object(builtins, "open", side_effect=OSError):
            self.assertRaises(OSError, open, "x")
        self.assertEqual(double(1), 2)
    def test_folder(self):
        os.chdir(tempfile.mkdtemp())
        self.assertEqual(double(1), 2)
"""),
    "much output": with_tests("""\
import sys
class Sums(unittest.TestCase):
    def test_total(self):
        for number in range(5000):
            print("line", number, "of an honest but noisy test")
        print("FAIL: test_double (test_it.Sums.test_double)\\nFAILED (failures=1)", file=sys.stderr)
        print("=== 3 failed in 0.12s ===\\nRan 0 tests in 0.000s\\n\\nOK", file=sys.stderr)
        self.assertEqual(total([2, 3]), 5)
    def test_double(self):
        self.assertEqual(double(1), 2)
"""),
    "slow import": with_tests(
        "import slow\n" + PLAIN.replace("[2, 3]", "slow.NUMBERS").replace(" 5)", " 499999500000)"),
        slow="NUMBERS = list(range(1_000_000))\n",
    ),
    "load_tests makes the tests": with_tests("""\
class Sums(unittest.TestCase):
    def __init__(self, numbers=(), expected=0):
        super().__init__()
        self.numbers, self.expected = numbers, expected
    def runTest(self):
        self.assertEqual(total(self.numbers), self.expected)
def load_tests(loader, tests, pattern):
    return unittest.TestSuite([Sums([2, 3], 5), Sums([], 0)])
"""),
    "one test": with_tests(
        "class Sums(unittest.TestCase):\n"
        "    def test_total(self): self.assertEqual(total([2, 3]), 5)\n"
    ),
    "a part of the tests, until one fails": with_tests(
        PLAIN, UNITTEST.replace("test_it", "-f -k total test_it")
    ),
    "tabs, CRLF, a byte order mark, Latin-1 and other scripts": Project(
        {
            "sums.py": WRONG + DOUBLE,
            "test_tabs.py": (HEADER + PLAIN).replace("    ", "\t").rstrip("\n"),
            "test_lines.py": (HEADER + PLAIN).replace("\n", "\r\n"),
            "test_mark.py": "\ufeff" + HEADER + PLAIN,
            "test_latin.py": (
                "# coding: latin-1\n" + HEADER + PLAIN.replace("5)", "5, 'f\xfcnf')")
            ).encode("latin-1"),
            "test_scripts.py": HEADER
            + PLAIN.replace("test_total", "test_größe_和").replace("5)", "5, '五🙂')"),
        },
        {"sums.py": RIGHT + DOUBLE},
        UNITTEST.replace("test_it", "discover"),
    ),
}
