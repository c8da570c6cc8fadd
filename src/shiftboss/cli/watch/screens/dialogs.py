"""Questions to the person at the keyboard: a line of text, or yes or no; and the list of keys."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from shiftboss.cli.common.output import printable_lines

ANSWER_CHARACTERS_MAX: Final = 10_000
_CSS: Final = """
{name} {{ align: center bottom; background: transparent; }}
{name} > Vertical {{
    width: 100%; height: auto; max-height: 90%; padding: 0 1;
    border-top: solid ansi_bright_black; background: ansi_default;
}}
{name} VerticalScroll {{ height: auto; max-height: 12; }}
{name} Input {{ background: ansi_default; }}
"""


def _body(title: str, text: str) -> VerticalScroll:
    """Foreign text, which is shown as it is."""
    shown = Text().append(printable_lines(title), "bold")
    if text:
        shown.append(f"\n{printable_lines(text)}")
    return VerticalScroll(Static(shown))


class Prompt(ModalScreen[str | None]):
    """A line of text; None if the person has thought better of it."""

    AUTO_FOCUS = "Input"
    DEFAULT_CSS = _CSS.format(name="Prompt")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(
        self, title: str, text: str = "", hint: str = "", value: str = "", *, needed: bool = True
    ) -> None:
        super().__init__()
        self._title, self._text, self._hint, self._value = title, text, hint, value
        self._is_needed = needed

    def compose(self) -> ComposeResult:
        with Vertical():
            yield _body(self._title, self._text)
            # Compact: a border, as a field with the focus has, would leave no row for the text.
            yield Input(
                self._value,
                placeholder=self._hint,
                max_length=ANSWER_CHARACTERS_MAX,
                compact=True,
            )
            yield Static(Text("enter sends it · esc goes back", "dim"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if text or not self._is_needed:
            self.dismiss(text)


class Confirm(ModalScreen[str | None]):
    """The key that was chosen, or None. `choices` are keys and what they do."""

    DEFAULT_CSS = _CSS.format(name="Confirm")

    def __init__(self, title: str, text: str, choices: dict[str, str]) -> None:
        super().__init__()
        self._title, self._text, self._choices = title, text, choices

    def compose(self) -> ComposeResult:
        keys = " · ".join(f"{key} {meaning}" for key, meaning in self._choices.items())
        with Vertical():
            yield _body(self._title, self._text)
            yield Static(Text(f"{keys} · esc back", "bold"))

    def on_key(self, event: Key) -> None:
        event.stop()  # else the screen below would take it for one of its own
        if event.key in self._choices:
            self.dismiss(event.key)
        elif event.key == "escape":
            self.dismiss(None)


class Help(ModalScreen[None]):
    """The effect of each key."""

    DEFAULT_CSS = _CSS.format(name="Help").replace("max-height: 12", "max-height: 100%")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss(None)", "back")
    ]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield VerticalScroll(Static(self._text))
