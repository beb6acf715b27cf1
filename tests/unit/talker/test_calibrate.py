"""What calibration measures of a model whose times are known is what the fake keeps."""

from collections.abc import Callable

import msgspec
import pytest

from talker.calibrate import calibrate
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.fake.talker import FakeModel, FakeStream, Manner, StepCurve


class Rendering(FakeModel):
    """A fake whose frames are rendered, as a real family's may be."""

    def __init__(self, name: str, curve: StepCurve, sleep: Callable[[float], None]) -> None:
        super().__init__(name, curve, sleep)
        object.__setattr__(self.spec, "raw", self.spec.frame)


class Clock:
    """Moves by what models sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_known_curve_is_found_again(clock: Clock) -> None:
    truth = StepCurve(
        step_s={1: 0.010, 8: 0.020}, prefill_s=0.005, render_base_s=0.002, render_frame_s=0.0001
    )
    model = Rendering("m", truth, clock.sleep)
    found = calibrate(model, 64, (1, 2, 8), 1, clock)
    assert found.step_s == pytest.approx({1: 0.010, 2: 0.011429, 8: 0.020}, abs=1e-6)
    assert found.prefill_s == pytest.approx(0.005)
    assert found.render_base_s == pytest.approx(0.002, abs=1e-5)
    assert found.render_frame_s == pytest.approx(0.0001, abs=1e-5)
    assert msgspec.json.decode(msgspec.json.encode(found), type=StepCurve) == found


def test_every_width_of_a_step_is_measured(clock: Clock) -> None:
    truth = StepCurve(step_s={1: 0.010, 8: 0.020})
    model = FakeModel("m", truth, clock.sleep, Manner(frames_per_step=4))
    found = calibrate(model, 64, (1, 8), 1, clock)
    assert found.drafts.keys() == {1, 2, 4}
    for drafted in found.drafts.values():
        known = {streams: truth.seconds(streams, 0) for streams in drafted.step_s}
        assert drafted.step_s == pytest.approx(known, abs=1e-6)
    assert found.drafts[1].gained == 1.0
    assert 1.0 < found.drafts[2].gained < found.drafts[4].gained <= 4.0
    assert found.step_s[8] == pytest.approx(0.020 / found.drafts[4].gained, abs=1e-6)


def test_what_the_engine_does_beside_its_model_counts_apart(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accept(self: FakeStream, cached: int, frames: Arrays, ended: bool) -> None:
        clock.sleep(0.001)
        taken(self, cached, frames, ended)

    taken = FakeStream.accept
    monkeypatch.setattr(FakeStream, "accept", accept)
    truth = StepCurve(step_s={1: 0.010, 8: 0.020})
    found = calibrate(FakeModel("m", truth, clock.sleep), 64, (1, 8), 1, clock)
    assert found.step_s == pytest.approx({1: 0.010, 8: 0.020}, abs=1e-6)
    assert found.turn_s == pytest.approx({1: 0.001, 8: 0.008}, abs=1e-5)


def test_a_measured_point_goes_before_the_formula() -> None:
    assert StepCurve(base_s=1.0, step_s={1: 0.01}).seconds(1, 0) == 0.01
    assert StepCurve(base_s=1.0, stream_s=0.5, prefill_s=0.25).seconds(2, 1) == 2.25


def test_what_a_model_fails_with_ends_the_calibration() -> None:
    class Broken(FakeModel):
        def open(self, prepared: Prepared) -> FakeStream:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        calibrate(Broken("m", StepCurve(), lambda _: None), 64, batches=(1,), rounds=1)
