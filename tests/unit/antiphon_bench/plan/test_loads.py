"""Who asks and when: rates that follow the day, traces, and files that cannot be used."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from antiphon_bench.plan.calls import Wanted
from antiphon_bench.plan.errors import BadTexts, BadTrace
from antiphon_bench.plan.loads import Demand, Source, lengths_of, poisson, sources_of, trace
from antiphon_bench.texts import SHORT

DAY = tuple(3.0 if hour == 18 else 1.0 for hour in range(24))


def test_sources_ask_as_often_as_they_say_and_in_order() -> None:
    found = poisson([Source(4.0, "short"), Source(1.0, "long")], 1000.0, 0)
    assert len(found) == pytest.approx(5000, rel=0.05)
    assert found == sorted(found, key=lambda one: one.at_s)
    assert found[-1].at_s < 1000.0


def test_a_peak_is_as_much_busier_as_the_day_says() -> None:
    source = Source(2.0, "short", day=DAY)
    peak = poisson([source], 600.0, 0)
    night = poisson([source], 600.0, 0, begin_s=2 * 3600.0)
    assert len(peak) / len(night) == pytest.approx(3.0, rel=0.15)
    mean = math.fsum(source.rate_at(3600.0 * hour) for hour in range(24)) / 24
    assert mean == pytest.approx(2.0, rel=0.01)


def test_bursts_come_as_often_and_less_evenly() -> None:
    def variation(cv: float) -> float:
        found = poisson([Source(5.0, "short", cv)], 1000.0, 1)
        counts = [0] * 1000
        for one in found:
            counts[int(one.at_s)] += 1
        mean = sum(counts) / 1000
        assert mean == pytest.approx(5.0, rel=0.15)
        return sum((count - mean) ** 2 for count in counts) / 1000 / mean

    assert variation(1.0) == pytest.approx(1.0, rel=0.2)
    assert variation(3.0) > 2.0


def test_a_load_at_another_scale_asks_so_many_times_as_often() -> None:
    demand = Demand((Source(4.0),), length_s=500.0)
    assert len(demand.wanted(0, 2.0)) == pytest.approx(2 * len(demand.wanted(0)), rel=0.1)


def test_a_trace_begins_at_its_first_request(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text("at_s,characters,who\n105,30,b\n100,20,a\n")
    assert trace(path) == [Wanted(0.0, 20), Wanted(5.0, 30)]
    assert trace(path, scale=2.0)[1] == Wanted(2.5, 30)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: the first line names the columns"),
        ("when,what\n1,2\n", "line 1: the first line names the columns"),
        ("at_s,characters\n", "there is no request in it"),
        ("at_s,characters\n1,20\nsoon,20\n", "line 3: at_s is a number"),
        ("at_s,characters\n1,0\n", "line 2: a text has 1 to"),
        ("at_s,characters\ninf,5\n", "line 2: a text has 1 to"),
        ("at_s,characters\n1\n", "line 2: at_s is a number"),
    ],
)
def test_a_trace_that_cannot_be_used_says_where(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "calls.csv"
    path.write_text(text)
    with pytest.raises(BadTrace, match=reason):
        trace(path)


def test_a_trace_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_bytes(b"at_s,characters\n\xff\xfe\n")
    (tmp_path / "requests.jsonl").write_text("{}\n")
    for name in ("calls.csv", "requests.jsonl", "nowhere.csv"):
        with pytest.raises(BadTrace, match=name):
            trace(tmp_path / name)


def test_a_load_file_has_sources(tmp_path: Path) -> None:
    path = tmp_path / "load.toml"
    path.write_text('[[source]]\nrate = 2.0\n[[source]]\nrate = 1\ntexts = "long"\ncv = 3.0\n')
    assert sources_of(path) == (Source(2.0), Source(1.0, "long", 3.0))


@pytest.mark.parametrize(
    "text", ["", "[[source]]\nrate = 0\n", "[[source]]\nrate = 1\nday = [1]\n", "rate = 1", "[["]
)
def test_a_load_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "load.toml"
    path.write_text(text)
    with pytest.raises(BadTrace, match=r"load\.toml"):
        sources_of(path)


def test_texts_are_a_set_or_the_lines_of_a_file(tmp_path: Path) -> None:
    assert lengths_of("short") == [len(text) for text in SHORT]
    (tmp_path / "said.txt").write_text("Hello.\n\n  Good morning.  \n")
    assert lengths_of("said.txt", tmp_path) == [6, 13]
    (tmp_path / "empty.txt").write_text("\n \n")
    for name in ("empty.txt", "nowhere.txt"):
        with pytest.raises(BadTexts, match=name):
            lengths_of(name, tmp_path)
