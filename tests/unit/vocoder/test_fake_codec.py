from pathlib import Path

import numpy as np
import pytest

from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec


def asked(seed: int, voice: str = "slt") -> SpeechRequest:
    return SpeechRequest("r", "fake", voice, "text", seed=seed)


def codec(slept: list[float] | None = None) -> FakeCodec:
    return FakeCodec("fake", DecodeCurve(), (slept if slept is not None else []).append)


def test_any_cut_gives_the_same_tone() -> None:
    fake = codec()
    codes = np.random.default_rng(1).integers(0, 512, (9, 4)).astype(np.int16)
    (whole,) = fake.decode([Work(fake.open(asked(3)), {"codes": codes}, final=True)])
    state = fake.open(asked(3))
    cuts = [(codes[:1], False), (codes[1:8], False), (codes[8:], False), (codes[9:], True)]
    pieces = [fake.decode([Work(state, {"codes": part}, final)])[0] for part, final in cuts]
    assert len(whole) == 9 * 640
    assert [len(piece) for piece in pieces] == [640 - 352, 7 * 640, 640, 352]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-6)


def test_another_code_is_heard() -> None:
    fake = codec()
    codes = np.zeros((2, 4), np.int16)
    (first,) = fake.decode([Work(fake.open(asked(3)), {"codes": codes}, final=True)])
    (second,) = fake.decode([Work(fake.open(asked(3)), {"codes": codes + 9}, final=True)])
    assert np.abs(first - second).max() > 1e-4


def test_a_step_takes_the_time_of_the_curve() -> None:
    slept: list[float] = []
    fake = FakeCodec("fake", DecodeCurve(base_s=1.0, stream_s=0.1, frame_s=0.01), slept.append)
    codes = np.zeros((5, 4), np.int16)
    works = [
        Work(fake.open(asked(seed)), {"codes": codes[:length]}, False)
        for seed, length in ((1, 5), (2, 2))
    ]
    fake.decode(works)
    assert slept == [pytest.approx(1.0 + 2 * 0.1 + 2 * 5 * 0.01)]


def test_a_curve_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    path.write_text('{"base_s": 0.5}')
    assert FakeCodec.load("fake", path)._curve == DecodeCurve(base_s=0.5)


def test_an_unknown_voice_is_refused() -> None:
    with pytest.raises(UnknownVoice):
        codec().open(asked(0, "nobody"))
