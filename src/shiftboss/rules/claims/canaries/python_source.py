"""The text of a Python file with its syntax tree: where each node is, and where a comment fits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from shiftboss.rules.claims.canaries.edits import FILE_CHARACTERS_MAX
from shiftboss.rules.claims.source_text import BYTE_ORDER_MARK, PythonPositions, TextEdit
from shiftboss.rules.claims.test_scanners.python import parse_python

Function = ast.FunctionDef | ast.AsyncFunctionDef
Located = ast.expr | ast.stmt

_LONE_RETURN: Final = re.compile(r"\r(?!\n)")
# What may follow the last statement of a line.
_END_OF_STATEMENTS: Final = re.compile(r"[ \t\f]*;?[ \t\f]*(?:#[^\r\n]*)?(?=\r?\n|\Z)")
_BLANK_LINE: Final = re.compile(r"[ \t]*(?=\r?\n|\Z)")


class PythonSource:
    """Raises SyntaxError if this version of Python cannot parse the file."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > FILE_CHARACTERS_MAX:
            raise SyntaxError("the file is too large")
        if _LONE_RETURN.search(text):
            raise SyntaxError("lines that end with a carriage return alone are not supported")
        self.module = parse_python(text.removeprefix(BYTE_ORDER_MARK))
        self._positions = PythonPositions(text)

    def start(self, node: Located) -> int:
        return self._positions.at(node.lineno, node.col_offset)

    def end(self, node: Located) -> int:
        return self._positions.at(node.end_lineno, node.end_col_offset)

    def snippet(self, node: Located) -> str:
        return self.text[self.start(node) : self.end(node)]

    def indentation(self, statement: ast.stmt) -> str:
        """Of a statement that starts its line."""
        return self.text[self._positions.line_starts[statement.lineno - 1] : self.start(statement)]

    def end_of_line(self, statement: ast.stmt) -> int | None:
        """The end of the line where the statement ends, if no other statement follows there."""
        match = _END_OF_STATEMENTS.match(self.text, self.end(statement))
        return match.end() if match else None

    def blank_line_after(self, statement: ast.stmt) -> tuple[int, int] | None:
        """Start and end of the line after the statement if it is blank. Also the empty rest after
        the last line break of the file counts."""
        assert statement.end_lineno is not None
        starts = self._positions.line_starts
        if statement.end_lineno >= len(starts):
            return None
        match = _BLANK_LINE.match(self.text, starts[statement.end_lineno])
        return match.span() if match else None

    def comments(self, nonce: str) -> list[TextEdit]:
        """A comment near the top of the file, and one in every test."""
        positions = {
            position
            for statement in [*self._first_statement(), *self._test_functions()]
            if (position := self.end_of_line(statement)) is not None
        }
        return [TextEdit(position, position, f"  # {nonce}") for position in positions]

    def _first_statement(self) -> list[ast.stmt]:
        """After the docstring: some tests look at the first line of their own file."""
        body = self.module.body
        statements = body[1:] if ast.get_docstring(self.module, clean=False) is not None else body
        return next(
            ([statement] for statement in statements if self.end_of_line(statement) is not None), []
        )

    def _test_functions(self) -> Iterator[Function]:
        for node in ast.walk(self.module):
            if isinstance(node, Function) and node.name.startswith("test"):
                yield node
