"""Parts of Python code that mutants leave alone, because tests have no reason to look at them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

# Functions whose result only people read, or that no test calls.
_LEFT_OUT_FUNCTIONS: Final = frozenset(("__repr__", "__str__", "__format__", "__del__"))
_LEFT_OUT_DECORATORS: Final = frozenset(("overload", "abstractmethod", "abstractproperty"))
_LEFT_OUT_STATEMENTS: Final = (
    *(ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.Pass, ast.Global, ast.Nonlocal),
)
_LOGGING: Final = frozenset(
    ("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "trace", "msg")
)
_LOGGER: Final = re.compile(r"_*(?:\w*log(?:ger|ging)?|warnings)_*", re.IGNORECASE)
# Called for people, for type checkers, to wait, or to end the process.
_NOISE_CALLS: Final = frozenset(
    (
        *("print", "pprint", "echo", "secho", "getLogger", "get_logger"),
        *("cast", "TypeVar", "ParamSpec", "NewType", "TypedDict", "assert_never", "reveal_type"),
        *("sleep", "exit", "_exit", "filterwarnings", "simplefilter", "collect"),
    )
)
_TIME: Final = re.compile(
    r"time_?out|delay|interval|sleep|back_?off|grace|deadline|poll|_(?:seconds|ms|secs)$",
    re.IGNORECASE,
)
_LEFT_ALONE: Final = frozenset(("annotation", "returns", "decorator_list", "pattern"))
_SETTING: Final = re.compile(r"_*[A-Z][A-Z0-9_]+")
_DUNDER: Final = re.compile(r"__\w+__")
_TYPES: Final = frozenset(
    ("int", "str", "float", "bytes", "bool", "list", "dict", "set", "tuple", "object", "type")
)


def is_left_out(node: ast.stmt) -> bool:
    """Whether nothing in the statement is mutated."""
    if isinstance(node, _LEFT_OUT_STATEMENTS):
        return True
    if isinstance(node, ast.Expr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        # A constant is a documentation string.
        return isinstance(value, ast.Constant) or (
            isinstance(value, ast.Call) and is_noise_call(value)
        )
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        decorators = {last_name(decorator) for decorator in node.decorator_list}
        return node.name in _LEFT_OUT_FUNCTIONS or not decorators.isdisjoint(_LEFT_OUT_DECORATORS)
    if isinstance(node, ast.ClassDef):
        return "Protocol" in {last_name(base) for base in node.bases}
    if isinstance(node, ast.If):
        return is_guard(node.test)
    return _is_left_out_assignment(node)


def is_guard(test: ast.expr) -> bool:
    """`if TYPE_CHECKING` and `if __name__ == "__main__"`."""
    if isinstance(test, ast.Compare):
        return last_name(test.left) == "__name__"
    return last_name(test) == "TYPE_CHECKING"


def is_noise_call(node: ast.Call) -> bool:
    name = last_name(node.func)
    if name in _NOISE_CALLS:
        return True
    if name not in _LOGGING or not isinstance(node.func, ast.Attribute):
        return False
    return _LOGGER.fullmatch(last_name(node.func.value)) is not None


def is_constant_of_time(name: str) -> bool:
    """Tests must not depend on how long something waits."""
    return _TIME.search(name) is not None


def is_equal_to_none(value: ast.expr) -> bool:
    """Whether None in its place makes no difference to most callers."""
    if isinstance(value, ast.Constant):
        return not value.value
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return not value.elts
    return isinstance(value, ast.Dict) and not value.keys


def is_type_union(node: ast.BinOp) -> bool:
    """Such as `int | None` in a call of isinstance."""
    if not isinstance(node.op, ast.BitOr):
        return False
    left = node.left
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.BitOr):
        left = left.right
    return _is_type(left) or _is_type(node.right)


def control_names(loop: ast.While) -> frozenset[str]:
    """The names that decide when the loop ends: those of its condition, and of conditions in it."""
    tests = [node.test for node in ast.walk(loop) if isinstance(node, ast.While | ast.If)]
    return frozenset(
        inner.id for test in tests for inner in ast.walk(test) if isinstance(inner, ast.Name)
    )


def conditions_of(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp):
        return [node.test]
    if isinstance(node, ast.comprehension):
        return node.ifs
    return [node.guard] if isinstance(node, ast.match_case) and node.guard is not None else []


def parts_of(node: ast.AST) -> Iterator[ast.AST]:
    """The children of a node, without those that are left alone.

    The tree has no exact positions inside of formatted strings.
    """
    if isinstance(node, ast.JoinedStr | ast.pattern):
        return
    if isinstance(node, ast.keyword) and node.arg and is_constant_of_time(node.arg):
        return
    for name, value in ast.iter_fields(node):
        if name in _LEFT_ALONE:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def last_name(node: ast.AST) -> str:
    """`warning` of `self.log.warning`, with or without a call."""
    if isinstance(node, ast.Call):
        node = node.func
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_left_out_assignment(node: ast.stmt) -> bool:
    """Of `__all__`, `__version__` and the like, of a logger, or of a setting: no test repeats the
    value of a port or a timeout."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        return False
    names = [last_name(target) for target in targets]
    is_call = isinstance(node.value, ast.Call) and is_noise_call(node.value)
    is_constant = isinstance(node.value, ast.Constant)
    return is_call or any(
        _DUNDER.fullmatch(name)
        or (is_constant and (is_constant_of_time(name) or _SETTING.fullmatch(name)))
        for name in names
    )


def _is_type(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    name = last_name(node)
    return name in _TYPES or (name[:1].isupper() and not name.isupper())
