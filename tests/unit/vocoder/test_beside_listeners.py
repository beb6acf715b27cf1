"""Jobs beside listeners in the vocoder's steps."""

from msgspec import structs

from tests.unit.vocoder.test_engine import Bench, Listener, codes, request
from ttscommon.engine.slots import OfflineTuning
from ttscommon.wire.requests import OFFLINE
from ttsfamilies.base.codec.base import Work
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.pcm import to_pcm

TUNING = OfflineTuning()
FRAMES = 200


def job(bench: Bench, name: str, frames: int = FRAMES) -> Listener:
    listener = bench.listeners.setdefault(name, Listener())
    bench.engine.open(structs.replace(request(name), priority=OFFLINE))
    bench.feed(name, codes(frames))
    return listener


def undisturbed(frames: int) -> list[int]:
    codec = FakeCodec("fake", DecodeCurve(), lambda _: None)
    state = codec.open(request("alone"))
    (samples,) = codec.decode([Work(state, {"codes": codes(frames)}, final=True)])
    return to_pcm(samples).tolist()


def test_none_is_decoded_while_a_listener_s_first_codes_are_awaited() -> None:
    bench = Bench()
    job(bench, "book")
    bench.steps()
    bench.open("heard")
    bench.codec.batches.clear()
    bench.steps(3)
    assert bench.codec.batches == []
    bench.clock.now += TUNING.first_s + 0.01
    bench.steps(1)
    assert len(bench.codec.batches) == 1


def test_none_is_decoded_beside_a_listener_who_has_little_left() -> None:
    bench = Bench()
    bench.open("heard")
    bench.feed("heard", codes(20))  # less than a second
    job(bench, "book")
    bench.steps(4)
    assert sum(map(sum, bench.codec.batches)) == 20
    bench.engine.playback("heard", bench.clock.now + TUNING.slack_s)
    bench.steps(1)
    assert sum(map(sum, bench.codec.batches)) > 20


def test_steps_are_short_while_a_listener_is_expected_and_full_again_later() -> None:
    bench = Bench()
    listener = job(bench, "book")
    bench.steps()
    assert bench.codec.batches == [[16]]
    bench.open("heard")
    bench.steps()
    bench.engine.cancel("heard")
    bench.clock.now += TUNING.first_s
    bench.codec.batches.clear()
    for _ in range(3):  # each step takes 10 ms, which is just as long as it may be
        bench.steps(2)
        bench.clock.now += 0.01
    assert [sum(batch) for batch in bench.codec.batches] == [1, 1, 1]
    bench.clock.now += TUNING.expected_s
    bench.codec.batches.clear()
    bench.steps()
    assert bench.codec.batches == [[16]]
    bench.engine.finish("book")
    bench.steps(FRAMES)
    assert listener.pcm == undisturbed(FRAMES)
