"""Positions in the text of a source file, and edits of it."""

from __future__ import annotations

import ast
import time

import pytest

from shiftboss.rules.claims.mutants.mutation import mutated_files
from shiftboss.rules.claims.mutants.sources import mutations
from shiftboss.rules.claims.source_text import PythonPositions, TextEdit, apply_edits

pytestmark = pytest.mark.requirement("OWN-13")

TEXT = "ä = 'ö€𝄞' + f('ü')\r\nif ä:\n    b = ['é', ä]  # ß\n"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_nodes_are_found_in_text_of_any_script(mark: str) -> None:
    positions = PythonPositions(mark + TEXT)
    nodes = [node for node in ast.walk(ast.parse(TEXT)) if isinstance(node, ast.expr)]
    for node in nodes:
        start = positions.at(node.lineno, node.col_offset)
        end = positions.at(node.end_lineno, node.end_col_offset)
        assert (mark + TEXT)[start:end] == ast.get_source_segment(TEXT, node)
        assert positions.line_at(start) == node.lineno
    assert len(nodes) > 8


def test_a_long_line_with_many_nodes_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        text = "ä = [" + "1, " * count + "]"
        started_at, positions = time.process_time(), PythonPositions(text)
        for number in range(count):
            assert text[positions.at(1, 6 + 3 * number)] == "1"
        return time.process_time() - started_at

    assert seconds(40_000) < 10 * max(seconds(10_000), 0.01)


def test_edits_are_applied_in_order_and_must_not_overlap() -> None:
    edits = [TextEdit(3, 3, "y"), TextEdit(0, 1, "A"), TextEdit(3, 3, "z")]
    assert apply_edits("abcd", edits) == "Abcyzd"
    with pytest.raises(ValueError, match="overlap"):
        apply_edits("abcd", [TextEdit(0, 2, ""), TextEdit(1, 3, "")])


def test_a_file_with_a_byte_order_mark_has_mutants() -> None:
    text = "\ufeffdef f(ä):\n    return ä + 1\n"
    found = [("a.py", each) for each in mutations("a.py", text, [2]) if each.kind == "arithmetic"]
    assert mutated_files({"a.py": text}, found)["a.py"].decode() == text.replace("+", "-")
