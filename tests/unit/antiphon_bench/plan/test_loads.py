"""Who asks and when: sources, traces, and files that cannot be used."""

from pathlib import Path

import pytest

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.loads import Demand, Wanted, lengths_of, trace
from antiphon_bench.texts import SHORT


def test_a_source_asks_as_often_as_it_says_and_in_order() -> None:
    found = Demand(5.0, "short", length_s=1000.0).wanted(0)
    assert len(found) == pytest.approx(5000, rel=0.05)
    assert found == sorted(found, key=lambda one: one.at_s)
    assert found[-1].at_s < 1000.0


def test_bursts_come_as_often_and_less_evenly() -> None:
    def variation(cv: float) -> float:
        found = Demand(5.0, "short", cv, length_s=1000.0).wanted(1)
        counts = [0] * 1000
        for one in found:
            counts[int(one.at_s)] += 1
        mean = sum(counts) / 1000
        assert mean == pytest.approx(5.0, rel=0.15)
        return sum((count - mean) ** 2 for count in counts) / 1000 / mean

    assert variation(1.0) == pytest.approx(1.0, rel=0.2)
    assert variation(3.0) > 2.0


def test_a_load_at_another_scale_asks_so_many_times_as_often() -> None:
    demand = Demand(4.0, length_s=500.0)
    assert len(demand.wanted(0, 2.0)) == pytest.approx(2 * len(demand.wanted(0)), rel=0.1)


def test_a_trace_begins_at_its_first_request(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text("at_s,characters,who\n105, 30,b\n100,20,a,more\n")
    assert trace(path) == [Wanted(0.0, 20), Wanted(5.0, 30)]
    assert trace(path, scale=2.0)[1] == Wanted(2.5, 30)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no request in it"),
        ("when,what\n1,2\n", "line 2: .* missing required field `at_s`"),
        ("at_s,characters\n1,20\nsoon,20\n", r"line 3: Expected `float`.*\.at_s"),
        ("at_s,characters\n1,0\n", r"line 2: Expected `int` >= 1 .*\.characters"),
        ("at_s,characters\ninf,5\n", r"line 2: Expected `float` <= .*\.at_s"),
        ("at_s,characters\nnan,5\n", r"line 2: Expected `float`.*\.at_s"),
        ("at_s,characters\n1\n", r"line 2: Expected `int`.*\.characters"),
    ],
)
def test_a_trace_that_cannot_be_used_says_where(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "calls.csv"
    path.write_text(text)
    with pytest.raises(PlanError, match=reason):
        trace(path)


def test_a_trace_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_bytes(b"at_s,characters\n\xff\xfe\n")
    (tmp_path / "requests.jsonl").write_text("{}\n")
    for name in ("calls.csv", "requests.jsonl", "nowhere.csv"):
        with pytest.raises(PlanError, match=name):
            trace(tmp_path / name)


def test_texts_are_a_set_or_the_lines_of_a_file(tmp_path: Path) -> None:
    assert lengths_of("short") == [len(text) for text in SHORT]
    (tmp_path / "said.txt").write_text("Hello.\n\n  Good morning.  \n")
    assert lengths_of(str(tmp_path / "said.txt")) == [6, 13]
    (tmp_path / "empty.txt").write_text("\n \n")
    for name in ("empty.txt", "nowhere.txt"):
        with pytest.raises(PlanError, match=name):
            lengths_of(str(tmp_path / name))
