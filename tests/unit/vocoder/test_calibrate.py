"""A fitted curve gives back what was measured, and the fake codec keeps to it."""

from pathlib import Path

import numpy as np
import pytest

from tests.unit.vocoder.test_engine import request
from ttsfamilies.base.codec.base import Work
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.calibrate import SHAPES, calibrate, fit, turns
from vocoder.engine.stream import Stream


def test_a_known_curve_is_found_again() -> None:
    truth = DecodeCurve(base_s=0.006, stream_s=0.0002, frame_s=0.0003)
    found = fit({shape: truth.step_s(*shape) for shape in SHAPES})
    assert (found.base_s, found.stream_s, found.frame_s) == pytest.approx(
        (0.006, 0.0002, 0.0003), abs=1e-6
    )


def test_no_part_of_a_curve_is_negative() -> None:
    found = fit({(1, 1): 0.010, (1, 16): 0.002, (16, 1): 0.010, (4, 4): 0.010})
    assert min(found.base_s, found.stream_s, found.frame_s) >= 0.0
    assert found.base_s > 0.0


def test_every_shape_is_measured() -> None:
    measured = calibrate(FakeCodec("m", DecodeCurve(), lambda _: None), ((1, 1), (2, 4)), rounds=2)
    assert list(measured) == [(1, 1), (2, 4)]
    assert min(measured.values()) > 0.0


def test_what_the_engine_does_beside_its_codec_counts_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def take(self: Stream, count: int) -> Work:
        now[0] += 0.001
        return taken(self, count)

    taken = Stream.take
    monkeypatch.setattr(Stream, "take", take)
    codec = FakeCodec("m", DecodeCurve(base_s=0.02), sleep)
    found = turns(codec, lambda: now[0], rounds=2)
    assert found == pytest.approx({1: 0.001, 4: 0.004, 16: 0.016})


def test_a_step_takes_the_time_of_the_curve() -> None:
    slept: list[float] = []
    fake = FakeCodec("fake", DecodeCurve(base_s=1.0, stream_s=0.1, frame_s=0.01), slept.append)
    codes = np.zeros((5, 4), np.int16)
    works = [Work(fake.open(request("r")), {"codes": codes[:n]}, False) for n in (5, 2)]
    fake.decode(works)
    assert slept == [pytest.approx(1.0 + 2 * 0.1 + 2 * 5 * 0.01)]


def test_a_curve_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    path.write_text('{"base_s": 0.5}')
    assert FakeCodec.load("fake", path)._curve == DecodeCurve(base_s=0.5)
