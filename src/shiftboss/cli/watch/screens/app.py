"""The full-screen program, with the effect of each key."""

from __future__ import annotations

import gc
from typing import Final

from textual.app import App
from textual.widgets import Input

from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.watch.link.live import Live
from shiftboss.cli.watch.model import actions
from shiftboss.cli.watch.model.actions import CommitNotShown, OperatorAction
from shiftboss.cli.watch.model.state import Model
from shiftboss.cli.watch.screens.decisions import DECISIONS, pause
from shiftboss.cli.watch.screens.dialogs import Help
from shiftboss.cli.watch.screens.keys import VIEWS, help_text
from shiftboss.cli.watch.screens.main_screen import MainScreen
from shiftboss.cli.watch.screens.notices import error_text
from shiftboss.cli.watch.screens.swarm_choice import SwarmChoice
from shiftboss.errors import ShiftbossError

# Changes that come together are drawn together.
DRAW_SECONDS: Final = 0.05


class WatchApp(App[None]):
    """`swarm_id` None watches the newest swarm that has work, and the inbox of all."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    MainScreen { background: ansi_default; color: ansi_default; }
    #header { height: 1; padding: 0 1; }
    #message, #notice { height: auto; max-height: 6; padding: 0 1; }
    #tabs, #keys { height: 1; }
    #message, #notice, #filter { display: none; }
    #filter { border: none; height: 1; padding: 0 1; background: ansi_default; }
    ContentSwitcher { height: 1fr; }
    """

    def __init__(self, session: ServerSession, swarm_id: str | None = None) -> None:
        # The colours of the terminal, which fit its background. NO_COLOR leaves them out.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.model = Model(chosen=swarm_id, swarm_id=swarm_id)
        self.live = Live(session, self.model, self._changed)
        self.main = MainScreen(self.live)
        self._is_drawing = False

    def get_default_screen(self) -> MainScreen:
        return self.main

    def on_mount(self) -> None:
        self.run_worker(self.live.run(), group="live")

    def _changed(self) -> None:
        if not self._is_drawing:
            self._is_drawing = True
            self.set_timer(DRAW_SECONDS, self._draw)

    def _draw(self) -> None:
        self._is_drawing = False
        if not self.main.children:
            return  # the program ends
        self.main.draw()
        if self.model.is_loaded and not gc.get_freeze_count():
            # Else looking for garbage among ten thousand cards stops the screen for 50 ms.
            gc.freeze()

    def action_view(self, name: str) -> None:
        self.main.show_view(name)

    def action_next_view(self, step: int) -> None:
        names = list(VIEWS.values())
        self.main.show_view(names[(names.index(self.main.view) + step) % len(names)])

    def on_row_list_opened(self) -> None:
        target = self.main.target
        if target is None or not target.task_id:
            return
        if target.swarm_id != self.model.swarm_id:
            self.live.watch_swarm(target.swarm_id)
        self.main.show_view("task")

    def action_leave(self) -> None:
        """Out of the filter, else to the board."""
        if self.main.query_one("#filter", Input).display:
            self._end_filter()
        else:
            self.main.show_view("board")

    def _end_filter(self) -> None:
        field = self.main.query_one("#filter", Input)
        field.value = ""
        field.display = False
        self.model.board.filter("")
        self.main.draw()
        self.main.lists["board"].list.after_filter()
        self.main.focused_view.focus()

    def action_filter(self) -> None:
        if self.main.view != "board":
            self.main.show_view("board")
        field = self.main.query_one("#filter", Input)
        if not field.value:
            self.main.lists["board"].list.before_filter()
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self.model.board.filter(event.value)
            self.main.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "filter":
            event.input.display = bool(event.value)
            self.main.focused_view.focus()

    def action_help(self) -> None:
        self.push_screen(Help(help_text()))

    def action_choose_swarm(self) -> None:
        def choose(swarm_id: str | None) -> None:
            if swarm_id:
                self.live.watch_swarm(swarm_id)
                self.main.show_view("board")

        self.push_screen(SwarmChoice(self.model.swarms, self.model.swarm_id), choose)

    def action_decide(self, key: str) -> None:
        target = self.main.target
        if target is not None and key in target.keys():  # noqa: SIM118 - a method of its own
            self.run_worker(self._decide(key), group="decide", exclusive=True)

    async def _decide(self, key: str) -> None:
        target = self.main.target
        if target is None:
            return
        try:
            self._perform(await DECISIONS[key](self, target))
        except CommitNotShown as error:
            self.main.say(error_text(error), "bold red")

    def action_pause(self) -> None:
        self.run_worker(self._pause(), group="decide", exclusive=True)

    async def _pause(self) -> None:
        """Resumes what is paused: the selected item of the inbox, else the swarm."""
        target, summary = self.main.target, self.model.summary
        paused = target.pause if target is not None and self.main.view == "inbox" else None
        if paused is not None:
            self._perform(actions.resume(paused.swarm_id, paused.task_id))
        elif summary is not None and summary.is_paused:
            self._perform(actions.resume(summary.swarm_id))
        elif summary is not None:
            self._perform(await pause(self, summary.swarm_id))

    def _perform(self, action: OperatorAction | None) -> None:
        """The next key may end a dialog, but not a request that was sent: it has a worker of its
        own, and its outcome is always shown."""
        if action is not None:
            self.run_worker(self._send(action), group="send")

    async def _send(self, action: OperatorAction) -> None:
        """Says what was done, or what the server has against it."""
        self.main.say("sending")
        try:
            done = await self.live.ask(action.perform, "act")
        except ShiftbossError as error:
            self.main.say(error_text(error), "bold red")
        else:
            self.main.say(done, "green")
            self.live.reload_after(action.swarm_id)

    def _fatal_error(self) -> None:
        """Textual would print the values of all variables, and a token may be among them."""
        self._close_messages_no_wait()

    def raise_failure(self) -> None:
        """The error of the program that ended it, if there was one."""
        if self._exception is not None:
            raise self._exception
