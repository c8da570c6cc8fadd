"""The prompt of a run: the oldest open question, and the answer that is being typed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from shiftboss.cli.common.line_input import TypedLine
from shiftboss.cli.common.output import printable
from shiftboss.orchestrator.run.progress import Progress

PAUSE_SECONDS: Final = 2.0
ANSWERED_ELSEWHERE: Final = "(answered elsewhere; this is another question) "


class AnswerPrompt:
    """An answer belongs to the question that was shown when its first key was typed. If that one is
    answered elsewhere in the meantime, the line is cleared, and the rest of it is ignored, up to
    its end or a pause: it must not answer another question.

    The keys come from the thread that reads the terminal, another one draws."""

    def __init__(self, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = progress
        self._clock = clock
        self._ignores_until = 0.0
        self._line = TypedLine()
        self._question_id: int | None = None
        self._sent: set[int] = set()
        self._lock = threading.Lock()

    def type(self, data: bytes) -> None:
        with self._lock:
            self._choose()
            if self._ignores():
                self._ignores_until = 0.0 if b"\n" in data else self._clock() + PAUSE_SECONDS
                return
            question_id = self._question_id
            lines = self._line.type(data)
            if question_id is None or self._progress.answer is None:
                self._line.text = ""
            elif lines:
                # Lines that are pasted together are one answer.
                self._line.text = ""
                self._sent.add(question_id)
                self._progress.answer(question_id, "\n".join(lines))

    def lines(self, console: Console, *, reads: bool) -> list[Text]:
        """Each fits one row of the terminal; all of them at most half of it. With `reads`, the last
        is the line that is being typed."""
        with self._lock:
            question = self._choose()
            typed = ANSWERED_ELSEWHERE if self._ignores() else self._line.text
        if question is None:
            return []
        title = f"{question['bead_id']} asks (question {question['question_id']}):"
        text = Text(printable(title), "bold yellow", no_wrap=True, overflow="ellipsis")
        question_lines = [
            row
            for line in str(question["question"]).splitlines()
            for row in Text(printable(line)).wrap(console, console.width)
        ]
        shown_max = max(console.height // 2 - 2, 1)
        if len(question_lines) > shown_max:
            question_lines[shown_max - 1 :] = [Text("...")]
        start = "your answer> "
        end = typed[-max(console.width - len(start) - 2, 1) :]
        answer = Text(f"{start}{end}_", "bold", no_wrap=True)
        return [text, *question_lines, *([answer] if reads else [])]

    def _ignores(self) -> bool:
        return self._clock() < self._ignores_until

    def _choose(self) -> Mapping[str, Any] | None:
        """The question that is typed about, or the oldest one."""
        open_questions = {
            question["question_id"]: question
            for question in self._progress.questions
            if question["question_id"] not in self._sent
        }
        if self._line.text and self._question_id not in open_questions:
            self._line.text = ""
            self._ignores_until = self._clock() + PAUSE_SECONDS
        if not self._line.text:
            self._question_id = next(iter(open_questions), None)
        return open_questions[self._question_id] if self._question_id is not None else None
