"""Many streams through one network: those that ask alike are one batch, and sound as alone."""

import pytest
import torch
from torch import Tensor

from tests.unit.ttsfamilies.cosyvoice.s3_flow.tiny import networks
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, FRAME_SAMPLES, MEL_FRAMES
from ttsfamilies.cosyvoice.s3_flow.sound import (
    Asked,
    Asking,
    MelWindow,
    Phase,
    Sound,
    begin,
    fresh,
    together,
)

PIECE = CHUNK * MEL_FRAMES
FRAMES = 3 * PIECE
CPU = torch.device("cpu")
STREAMS = 2
SLOW = ("cosyvoice2", "chatterbox")
# Of an int16 step: convolutions of a batch may sum in another order.
CLOSE = 0.1 / 32768


class Doubling:
    """A network that knows how many rows it was shown at a time."""

    def __init__(self) -> None:
        self.shown: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.shown.append(len(x))
        return 2 * x


def doubled(net: Doubling, lengths: list[int]) -> Asking[float]:
    total = 0.0
    for length in lengths:
        answer = yield Asked(net, (torch.ones(length),))
        assert answer.shape == (length,)
        total += float(answer.sum())
    return total


def test_what_is_asked_alike_is_one_batch_whenever_it_is_asked() -> None:
    net = Doubling()
    every = [[3, 4], [3], [5, 4], [], [3, 4, 4]]
    found = together([doubled(net, lengths) for lengths in every])
    assert found == [2.0 * sum(lengths) for lengths in every]
    assert net.shown == [3, 1, 3, 1]


def sounded(sound: Sound, stream: int) -> Asking[tuple[MelWindow, Tensor]]:
    """Three pieces of a stream, the last of which is its end."""
    draws = fresh(stream, 80)
    drawn = draws.uniform if sound.phase is Phase.HELD else draws.normal
    harmonics = sound.net.sizes.harmonics

    def noise(first: int, samples: int) -> Tensor:
        return torch.stack([drawn(i, first, samples, CPU) for i in range(harmonics)]).double()

    mel = draws.frames(0, FRAMES, CPU) - 3
    window, parts = sound.window(begin(draws, harmonics, CPU)), []
    for at in range(0, FRAMES, PIECE):
        window, samples = yield from sound.advance(
            window,
            mel[:, at : at + PIECE],
            noise,
            upto=at + PIECE,
            complete=at + PIECE == FRAMES,
        )
        parts.append(samples)
    return window, torch.cat(parts)


@pytest.mark.parametrize(
    "kind", ["cosyvoice3", *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)]
)
def test_a_stream_sounds_beside_others_as_it_does_alone(kind: str) -> None:
    nets = networks(kind)
    sound, shown = Sound(nets.hift, nets.phase), []
    plain = nets.hift.decode

    def decode(mel: Tensor, source: Tensor) -> Tensor:
        shown.append(len(mel))
        return plain(mel, source)

    with torch.inference_mode(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(sound.net, "decode", decode)
        beside = together([sounded(sound, stream) for stream in range(STREAMS)])
        assert shown == [STREAMS] * len(shown)
        for stream, (window, samples) in enumerate(beside):
            ((alone, heard),) = together([sounded(sound, stream)])
            assert len(heard) == FRAMES * FRAME_SAMPLES
            torch.testing.assert_close(samples, heard, rtol=0, atol=CLOSE)
            torch.testing.assert_close(window.before, alone.before, rtol=0, atol=1e-9)
            assert window.first == alone.first > 0
    assert not torch.equal(beside[0][1], beside[1][1])
    assert not torch.equal(beside[0][0].before, beside[1][0].before)
