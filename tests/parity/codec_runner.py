"""One runner for every codec: any pieces, in company, and taken over, it gives the same samples."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tests.parity.codecs import CodecSubject
from tests.parity.material import Floats
from tests.turning import turn
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import cut, rows
from ttsfamilies.base.codec.base import Codec, Work
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import DecodedAudio, Event, Failed, Finished, Resume, first_frame
from vocoder.pcm import FULL_SCALE, to_pcm

# How a stream's frames are cut; the rest comes with the final frame.
PIECES: Final[Mapping[str, Sequence[int]]] = {
    "one shot": (),
    "frame by frame": (1,) * 1000,
    "pieces that grow": (1, 2, 3, 5, 8, 13),
    "unequal pieces": (3, 1, 4, 1, 5, 2),
    "pieces of two": (2,) * 1000,
}
# The largest difference that rounding to int16 makes.
_ROUNDING: Final = 1 / FULL_SCALE


def in_pieces(codec: Codec, subject: CodecSubject, sizes: Sequence[int]) -> Floats:
    """All samples of the material, of one stream."""
    (found,) = in_company(codec, subject, [sizes])
    return found


def in_company(codec: Codec, subject: CodecSubject, cuts: Sequence[Sequence[int]]) -> list[Floats]:
    """All samples of streams of the same material, each cut its own way, in one batch a step."""
    material = subject.material()
    states = [codec.open(subject.request) for _ in cuts]
    found: list[list[Floats]] = [[] for _ in cuts]
    waiting = [_edges(sizes, rows(material)) for sizes in cuts]
    while any(waiting):
        now = [i for i, edges in enumerate(waiting) if edges]
        works = []
        for i in now:
            start, stop = waiting[i].pop(0)
            final = stop == rows(material)
            works.append(Work(states[i], cut(material, start, stop), final=final))
        for i, samples in zip(now, codec.decode(works), strict=True):
            found[i].append(samples)
    for state in states:
        codec.close(state)
    return [np.concatenate(samples) for samples in found]


def _edges(sizes: Sequence[int], frames: int) -> list[tuple[int, int]]:
    edges, at = [], 0
    for size in (*sizes, frames):
        if at < frames:
            edges.append((at, min(at + size, frames)))
            at += size
    return edges


def taken_over(codec: Codec, subject: CodecSubject) -> list[tuple[int, Floats]]:
    """By a vocoder's engine behind each piece of another: the first sample, and those from it."""
    pieces, found, sent = _served(codec, subject, Resume()), [], 0
    for piece in pieces[:-1]:
        sent += len(piece.pcm)
        rest = _served(codec, subject, Resume(sent, piece.frame, piece.mark))
        found.append((sent, np.concatenate([_floats(one) for one in rest])))
    return found


def _floats(piece: DecodedAudio) -> Floats:
    return piece.pcm.astype(np.float32) / np.float32(FULL_SCALE)


def _served(codec: Codec, subject: CodecSubject, resume: Resume) -> list[DecodedAudio]:
    heard: list[Event] = []
    engine = Engine(codec, slots=1, metrics=Metrics(), limits=BatchLimits(stream_frames=4))
    engine.listen(lambda events: heard.extend(event for _, event in events))
    engine.open(subject.request, resume)
    begin, material = first_frame(codec.spec, resume.frame, None), subject.material()
    for start, stop in _edges((3, 1, 4, 2), rows(material) - begin):
        engine.feed("r", cut(material, begin + start, begin + stop))
        turn(engine)
    engine.finish("r")
    while not isinstance(heard[-1] if heard else None, Finished | Failed):
        turn(engine)
    assert isinstance(heard[-1], Finished), heard[-1]
    return [event for event in heard if isinstance(event, DecodedAudio)]


def compare(subject: CodecSubject, found: Floats, first: int = 0, *, served: bool = False) -> None:
    """Raises AssertionError unless these are the reference's samples from `first` on.

    served: as int16, as listeners get them.
    """
    wanted, at = subject.wanted(), -(-first // subject.stride)
    wanted, found = wanted[at:], found[at * subject.stride - first :: subject.stride]
    if served:
        wanted = to_pcm(wanted).astype(np.float32) / np.float32(FULL_SCALE)
    assert found.shape == wanted.shape
    atol = subject.atol + _ROUNDING * served
    np.testing.assert_allclose(found, wanted, 0, atol)
