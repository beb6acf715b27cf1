"""Points are kept as they are measured, and a subcommand goes on where it was cut off."""

from pathlib import Path

import pytest

from antiphon_bench.gpu.bundle import TooLarge, bundle
from antiphon_bench.gpu.records import Point, Records

KEYS = [{"batch": batch} for batch in (1, 2, 4)]


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    records, measured = Records(tmp_path, "step"), []

    def measure(key: Point) -> Point:
        measured.append(key["batch"])
        return {"seconds": 1.0}

    records.add({"batch": 2, "seconds": 9.0})
    assert records.fill(KEYS, measure, minutes=1)
    assert measured == [1, 4]
    assert records.read()[0] == {"batch": 2, "seconds": 9.0}
    assert records.missing(KEYS) == []


def test_nothing_is_begun_that_would_end_too_late(tmp_path: Path) -> None:
    records, clock = Records(tmp_path, "step"), Clock()

    def measure(key: Point) -> Point:
        clock.now_s += 40.0
        return {}

    assert not records.fill(KEYS, measure, minutes=1, clock=clock)
    assert [point["batch"] for point in records.read()] == [1]
    clock.now_s = 0.0
    assert not records.fill(KEYS, measure, minutes=1, clock=clock)
    assert records.fill(KEYS, measure, minutes=1, clock=clock)
    more, at_s = [{"batch": 8}], clock.now_s
    assert not records.fill(more, measure, 1, clock=clock, spent_s=30.0, least_s=40.0)
    assert clock.now_s == at_s
    assert records.fill(more, measure, 1, clock=clock, spent_s=10.0, least_s=40.0)


def test_a_line_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    records = Records(tmp_path, "step")
    records.add({"batch": 1})
    with records.path.open("a") as file:
        file.write('{"batch": 2, "sec')
    assert records.read() == [{"batch": 1}]


def test_a_bundle_that_is_too_large_is_none(tmp_path: Path) -> None:
    with pytest.raises(TooLarge):
        bundle(tmp_path / "b.tar.gz", wheels=False, most=1000)
    assert not (tmp_path / "b.tar.gz").exists()
