"""What `make bench-peers` makes of its measurements: statistics, tables, plot."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench.peers.plot import draw
from bench.peers.records import PIPE_VARIABLE, Kind, RecordPipe, record
from bench.peers.report import PAGE, PLOT, write
from bench.peers.results import DISPATCH_P50, Limit, Results, Spread, SystemResult, cycles
from bench.peers.systems import SYSTEMS, chosen
from bench.peers.tables import number, tables, with_range

DOCS = Path(__file__).parents[3] / "docs"
_SVG = "{http://www.w3.org/2000/svg}"


def system(name: str, title: str, *rates: float, durable: bool = True) -> SystemResult:
    return SystemResult(
        name=name,
        title=title,
        version="1.0",
        durability="every commit synced",
        is_durable=durable,
        is_ours=name.startswith("sqlite-"),
        figures={cycles(1): list(rates), DISPATCH_P50: [2.0, 1.0, 3.0]} if rates else {},
        failure=None if rates else "Traceback\n  line\nno-such-package is not installed",
    )


@pytest.fixture
def results() -> Results:
    return Results(
        conditions={"disk": "ext4"},
        jobs=2000,
        dispatches=200,
        rounds=3,
        workers=[1],
        systems=[
            system("sqlite-sdk", "Ours", 400, 90, 200),
            system("huey", "Huey & Co", 100, 30, 80),
            system("rq", "RQ", 50, 60, 10),
            system("nats", "NATS", 800, 800, 800, durable=False),
            system("celery", "Celery"),
        ],
        limits=[Limit(name="`fdatasync`", unit="syncs/s", values=[4000, 3000, 5000])],
    )


def test_a_spread_is_the_median_and_the_range_of_the_rounds() -> None:
    assert Spread.of([3, 1, 2.5]) == (2.5, 1, 3)


def test_a_ratio_compares_each_round_with_the_best_peer_of_that_round(results: Results) -> None:
    # 400 / 100, 90 / 60, 200 / 80
    assert results.ratio(cycles(1), "sqlite-sdk", results.durable_peers()) == (2.5, 1.5, 4)


def test_a_ratio_to_what_was_not_measured_is_left_out(results: Results) -> None:
    assert results.ratio(cycles(1), "sqlite-sdk", ["celery", "unknown"]) is None
    assert results.ratio(cycles(8), "sqlite-sdk", ["huey"]) is None


def test_durable_peers_are_neither_ours_nor_those_that_may_lose_messages(results: Results) -> None:
    assert results.durable_peers() == ["huey", "rq", "celery"]


@pytest.mark.parametrize(("value", "shown"), [(1234.5, "1,234"), (12.34, "12.3"), (0.128, "0.13")])
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_a_single_round_has_no_range() -> None:
    assert with_range(Spread.of([7.0])) == "7.00"
    assert with_range(Spread.of([120, 100, 300])) == "120 (100–300)"
    assert with_range(None) == "–"


def test_the_table_shows_medians_ranges_and_ratios(results: Results) -> None:
    text = tables(results)
    assert "| **Ours** | yes | 200 (90.0–400) |" in text
    assert "| NATS | no | 800 |" in text
    assert "| SQLite, SDK / best durable peer | 2.50 (1.50–4.00) |" in text
    assert "| `fdatasync` | 4,000 (3,000–5,000) syncs/s |" in text


def test_what_was_not_measured_is_named_with_the_reason(results: Results) -> None:
    text = tables(results)
    assert "- Celery: no-such-package is not installed\n" in text
    assert "| Celery | yes |" not in text


def test_the_plot_has_a_bar_for_each_system_and_figure(results: Results) -> None:
    root = ET.fromstring(draw(results))
    bars = [bar for bar in root.iter(f"{_SVG}rect") if bar.get("height") == "12.0"]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert [bar.get("class") for bar in bars[:4]] == ["ours", "peer", "peer", "weak"]
    assert len(bars) == 8  # four systems; cycles and dispatch
    assert widths[0] / widths[3] == pytest.approx(200 / 800, rel=0.01)
    assert "Huey & Co" in [text.text for text in root.iter(f"{_SVG}text")]


def test_the_page_keeps_what_is_outside_of_the_marks(results: Results, tmp_path: Path) -> None:
    page = (DOCS / PAGE).read_text()
    (tmp_path / PAGE).write_text(page)
    write(results, tmp_path)
    written = (tmp_path / PAGE).read_text()
    assert "Huey & Co" in written
    assert page.partition("<!--")[0] == written.partition("<!--")[0]
    assert page.rpartition("-->")[2] == written.rpartition("-->")[2]
    assert (tmp_path / PLOT).read_text() == draw(results)


def test_results_survive_their_file(results: Results) -> None:
    assert Results.model_validate_json(results.model_dump_json()) == results


def test_records_of_several_processes_arrive_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordPipe(tmp_path / "records") as pipe:
        monkeypatch.setenv(PIPE_VARIABLE, str(pipe.path))
        record(Kind.READY)
        record(Kind.SENT, 7)
        read = list(pipe.read(30))
        assert [(one.kind, one.job) for one in read] == [(Kind.READY, 0), (Kind.SENT, 7)]
        assert read[0].nanoseconds <= read[1].nanoseconds
        assert list(pipe.read(0)) == []


def test_systems_are_chosen_by_name() -> None:
    assert [one.name for one in chosen("nats,huey")] == ["nats", "huey"]
    with pytest.raises(ValueError, match="unknown: kafka"):
        chosen("nats,kafka")


def test_every_system_has_an_adapter_and_a_name_of_its_own() -> None:
    adapters = Path(__file__).parents[3] / "bench" / "peers" / "adapters"
    assert all((adapters / f"{one.adapter}.py").exists() for one in SYSTEMS)
    assert len({one.name for one in SYSTEMS}) == len(SYSTEMS)
