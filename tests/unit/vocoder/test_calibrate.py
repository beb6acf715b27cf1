"""A fitted curve gives back what was measured."""

import pytest

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
