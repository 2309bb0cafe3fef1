# SPDX-License-Identifier: Apache-2.0
"""LiveScreen: the terminal screen of fastprof live, with textual (https://textual.textualize.io)."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Footer

from fastprof.base import errors
from fastprof.base.text_style import cut_to_width
from fastprof.cli.ask import default_stem
from fastprof.cli.live_text import live_lines
from fastprof.flight_recorder.dumps import SUFFIX
from fastprof.flight_recorder.live_view import LiveReader, LiveView

__all__ = ["LiveScreen", "LiveText"]


class LiveText(Widget):
    """Lines of text. Only those that changed are drawn again, which takes a third less than textual's Static."""

    _lines: tuple[str, ...] = ("reading ...",)
    _style: Style | None = None

    def show(self, lines: list[str]) -> None:
        """Show these lines instead. Thread of the app."""
        before, self._lines = self._lines, tuple(lines)
        self._style = self.rich_style  # once a view: textual computes it for 0.1 ms
        changed = [
            Region(0, y, self.size.width, 1)
            for y in range(max(len(before), len(lines)))
            if before[y : y + 1] != self._lines[y : y + 1]
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """Return a line as textual draws it."""
        text = self._lines[y] if y < len(self._lines) else ""
        style = self._style or self.rich_style
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)


class LiveScreen(App[None]):
    """Shows a view every `interval_s`. It is read on a thread of its own, so that keys are answered meanwhile."""

    BINDINGS: ClassVar[list[Any]] = [
        ("t", "threads", "Threads"),
        ("d", "dump", "Dump"),
        ("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False
    CSS = "LiveText { height: 1fr; }"

    def __init__(self, reader: LiveReader, program: str, interval_s: float) -> None:
        super().__init__()
        self._reader, self._program, self._interval_s = reader, program, interval_s
        self._view: LiveView | None = None
        self._message = ""
        self._by_thread = False
        self._text = LiveText()

    def compose(self) -> ComposeResult:
        """Return the widgets: the text, and the keys."""
        yield self._text
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.run_worker(self._read, thread=True)

    def on_resize(self) -> None:
        """Show the view in the new size."""
        self._show()

    def _read(self) -> None:
        while self.is_running:
            began_s = time.monotonic()
            try:
                view = self._reader.look()
            except errors.Error as error:
                ended = isinstance(error, errors.IoError)
                self._message = "the process has ended; q leaves" if ended else str(error)
                self.call_from_thread(self._show)
                if ended:
                    return
            else:
                self._view = view
                self.call_from_thread(self._show)
                if not view.alive:
                    return
            # A slow look leaves the CPU as much time as it took.
            passed_s = time.monotonic() - began_s
            time.sleep(max(self._interval_s - passed_s, passed_s))

    def _show(self) -> None:
        if self._view is None:
            return
        size = self.size
        height = max(size.height - 2, 5)
        lines = live_lines(
            self._view, self._program, width=size.width, height=height, threads=self._by_thread
        )
        message = cut_to_width(self._message, size.width)
        self._text.show([*lines, message][: size.height - 1])

    def action_threads(self) -> None:
        """Show threads instead of names, or names again."""
        self._by_thread = not self._by_thread
        self._show()

    def action_dump(self) -> None:
        """Write a dump into the working folder, and say where."""
        stem = f"{default_stem(self._reader.process.pid)}-{time.strftime('%H%M%S')}"
        try:
            self._reader.dump(stem + SUFFIX)
            self._message = f"wrote {stem}{SUFFIX}"
        except errors.Error as error:
            self._message = str(error)
        self._show()
