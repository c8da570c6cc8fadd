"""The plot of what was measured: one bar per system and figure, as an SVG without scripts.

Its colours are readable on light and on dark, and follow the reader's setting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import log10
from typing import Final, NamedTuple

from bench.peers.results import DISPATCH_P50, Results, Spread, SystemResult, cycles
from bench.peers.systems import PRODUCERS
from bench.peers.tables import number, processes

_ROW: Final = 22
_BAR: Final = 12
_TOP: Final = 62
_NAMES: Final = 330
_PANEL: Final = 210
_PANEL_GAP: Final = 26
# Right of the longest bar, for its figure.
_FIGURE: Final = 52
_CYCLES: Final = "cycles/s; more is better"
_LEGEND: Final = 110
_READING: Final = "bar: median of the rounds; line: their range"
_STYLE: Final = """
    .back { fill: #ffffff; }
    text { fill: #1f2328; }
    .small { fill: #59636e; font-size: 12px; }
    .ours { fill: #0969da; }
    .peer { fill: #8c959f; }
    .weak { fill: none; stroke: #8c959f; stroke-dasharray: 3 2; }
    .range { stroke: #1f2328; stroke-width: 1; opacity: 0.6; }
    .bold { font-weight: 600; }
    @media (prefers-color-scheme: dark) {
      .back { fill: #0d1117; }
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
      .ours { fill: #4493f8; }
      .peer { fill: #7d8590; }
      .weak { stroke: #7d8590; }
      .range { stroke: #e6edf3; }
    }
"""


class Panel(NamedTuple):
    title: str
    figure: str
    note: str
    is_logarithmic: bool = False


def draw(results: Results) -> str:
    systems = [system for system in results.systems if system.figures]
    panels = _panels(results)
    width = _NAMES + len(panels) * (_PANEL + _PANEL_GAP)
    height = _TOP + len(systems) * _ROW + 40
    body = [
        f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
        *_names(systems),
        *(
            line
            for index, panel in enumerate(panels)
            for line in _panel(panel, systems, _NAMES + index * (_PANEL + _PANEL_GAP))
        ),
        *_legend(height - 16),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">\n'
        "  <title>Cycles per second and idle dispatch of Shiftboss and other task queues</title>\n"
        f"  <style>{_STYLE}  </style>\n" + "".join(f"  {line}\n" for line in body) + "</svg>\n"
    )


def _panels(results: Results) -> list[Panel]:
    most = results.workers[-1]
    return [
        *(Panel(processes(count), cycles(count), _CYCLES) for count in results.workers),
        Panel(f"{processes(most)}, {PRODUCERS} producers", cycles(most, PRODUCERS), _CYCLES),
        Panel("idle dispatch, p50 ms", DISPATCH_P50, "less is better; logarithmic", True),
    ]


def _names(systems: Sequence[SystemResult]) -> list[str]:
    return [
        _text("bold" if system.is_ours else "name", 16, _middle(row) + 4, system.title)
        for row, system in enumerate(systems)
    ]


def _panel(panel: Panel, systems: Sequence[SystemResult], left: int) -> list[str]:
    spreads = [system.spread(panel.figure) for system in systems]
    length = _scale([spread for spread in spreads if spread], panel.is_logarithmic)
    return [
        _text("bold", left, 26, panel.title),
        _text("small", left, 44, panel.note),
        *(
            line
            for row, (system, spread) in enumerate(zip(systems, spreads, strict=True))
            if spread is not None
            for line in _bar(_kind(system), spread, left, _middle(row), length)
        ),
    ]


def _bar(
    kind: str, spread: Spread, left: int, middle: int, length: Callable[[float], float]
) -> list[str]:
    end = left + length(spread.median)
    low, high = left + length(spread.low), left + length(spread.high)
    return [
        _rectangle(kind, left, middle - _BAR // 2, end - left, _BAR),
        f'<path class="range" d="M{low:.1f},{middle} L{high:.1f},{middle}"/>',
        _text("small", max(end, high) + 5, middle + 4, number(spread.median)),
    ]


def _scale(spreads: Sequence[Spread], is_logarithmic: bool) -> Callable[[float], float]:
    """From a value to the length of its bar."""
    longest = _PANEL - _FIGURE
    highest = max((spread.high for spread in spreads), default=1.0)
    if not is_logarithmic:
        return lambda value: longest * value / highest
    # A logarithmic axis has no zero: it begins at half of the lowest value.
    lowest = min((spread.low for spread in spreads), default=1.0) / 2
    decades = log10(highest / lowest)
    return lambda value: longest * log10(value / lowest) / decades


def _kind(system: SystemResult) -> str:
    if system.is_ours:
        return "ours"
    return "peer" if system.is_durable else "weak"


def _legend(y: int) -> list[str]:
    kinds = [("ours", "Shiftboss"), ("peer", "durable"), ("weak", "not durable per message")]
    entries = [
        line
        for index, (kind, text) in enumerate(kinds)
        for line in (
            _rectangle(kind, 16 + index * _LEGEND, y - 10, 14, 10),
            _text("small", 36 + index * _LEGEND, y, text),
        )
    ]
    return [*entries, _text("small", _NAMES + 2 * _LEGEND, y, _READING)]


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place}/>'


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _middle(row: int) -> int:
    return _TOP + row * _ROW + _ROW // 2
