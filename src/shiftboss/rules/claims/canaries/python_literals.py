"""Other values for the literals of a Python test.

A changed value keeps its type, because code that cheats may compare equal to everything of that
type; and it is changed by chance, because such code may know how values are usually changed.
"""

from __future__ import annotations

import ast
import math
from random import Random, SystemRandom
from typing import Final

from shiftboss.rules.claims.canaries.edits import LETTERS

_ANY_CHANCE: Final = SystemRandom()
_STEPS: Final = (1, 2, 3, 4, 5, 6, 7, -1, -2, -3)


def changeable_part(node: ast.expr) -> ast.expr | None:
    """The literal itself, or one inside of a list, tuple, set or dictionary."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts:
        parts = (changeable_part(element) for element in node.elts)
        return next((part for part in parts if part is not None), None)
    if isinstance(node, ast.Dict) and node.keys:
        # Of equal keys the last one counts.
        return changeable_part(node.values[-1]) if node.keys[-1] is not None else None
    if node.lineno != node.end_lineno:
        return None
    return node if changed_literal(node, _ANY_CHANCE) is not None else None


def changed_literal(node: ast.expr, random: Random) -> str | None:
    """Source of another value of the same type, or None if the node is not a literal."""
    if isinstance(node, ast.List | ast.Tuple | ast.Dict):
        added = random.choice(range(100))
        text = {ast.List: "[{0}]", ast.Tuple: "({0},)", ast.Dict: "{{{0}: {0}}}"}[type(node)]
        return text.format(added)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = node.operand.value if isinstance(node.operand, ast.Constant) else None
        if isinstance(number, int | float) and not isinstance(number, bool):
            return _changed_number(-number, random)
    return _changed_constant(node.value, random) if isinstance(node, ast.Constant) else None


def _changed_constant(value: object, random: Random) -> str | None:
    if value is None:
        return str(random.choice(range(100)))
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int | float):
        return _changed_number(value, random)
    if not isinstance(value, str | bytes):
        return None
    # One letter more, so that it is another text wherever it is put.
    at = random.choice(range(len(value), -1, -1))
    letter = random.choice(LETTERS)
    if isinstance(value, bytes):
        return repr(value[:at] + letter.encode() + value[at:])
    return ascii(value[:at] + letter + value[at:])


def _changed_number(value: float, random: Random) -> str | None:
    changed = value + random.choice(_STEPS)
    # Too large, or so large that it stays the same.
    if isinstance(value, float) and not (math.isfinite(value) and abs(value) < 2**50):
        return None
    try:
        return repr(changed)
    except ValueError:  # more digits than Python prints
        return None
