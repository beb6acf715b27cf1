"""What every codec family owes recovery: gone on with behind any piece, nobody hears it.

A new family joins by one line in FAMILIES.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
import torch

from ttscommon.errors import MalformedMessage
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics
from ttscommon.replicas import Voice
from vocoder.codecs.base import Codec, Codes
from vocoder.codecs.cantor import Cantor
from vocoder.codecs.cantor_net import CantorDecoder
from vocoder.codecs.fake import Curve, FakeCodec
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import Limits
from vocoder.engine.stream import Event, Failed, Finished, Piece

FRAMES = 90
PIECES = (1, 1, 2, 3, 12, 16, 1, 5, 16, 9, 1, 16, 7)


def fake() -> Codec:
    return FakeCodec("m", Curve(), lambda _: None)


@cache
def cantor() -> Codec:
    """Mostly voiced, so that the phase of a pulse depends on frames long past."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    decoder = CantorDecoder()
    torch.nn.init.normal_(decoder.codes)
    with torch.no_grad():
        decoder.pitch_head.bias[1] += 3
    return Cantor("m", decoder, (Voice("slt", "SLT", "en"),))


FAMILIES = (fake, cantor)
every_family = pytest.mark.parametrize("family", FAMILIES)

Pcm = npt.NDArray[np.int16]


class Heard(list[Event]):
    """An engine's listener."""

    @property
    def pieces(self) -> list[Piece]:
        return [event for event in self if isinstance(event, Piece)]

    @property
    def pcm(self) -> Pcm:
        return np.concatenate([piece.pcm for piece in self.pieces])


def request(name: str) -> SpeechRequest:
    return SpeechRequest(name, "m", "slt", "text", seed=5)


@cache
def sequence() -> Codes:
    return np.random.default_rng(3).integers(0, 500, (FRAMES, 4)).astype(np.int16)


def speak(codec: Codec, behind: Piece | None = None, skip: int = 0) -> tuple[Heard, int]:
    """Undisturbed, or as the successor of one whose last piece was `behind`.

    Returns what was heard, and how many frames were decoded for it.
    """
    heard, fed = Heard(), 0
    limits = Limits(stream_frames=16)
    engine = Engine(codec, slots=2, metrics=Metrics(), limits=limits)
    frame, mark = (behind.frame, behind.mark) if behind else (0, b"")
    engine.open(request("a"), heard.append, skip=skip, frame=frame, mark=mark)
    begin = start = codec.spec.replay_from(frame)
    for size in (*PIECES, FRAMES):
        stop = min(start + size, FRAMES)
        if stop > start:
            engine.feed("a", sequence()[start:stop])
            fed += stop - start
        if stop == FRAMES:
            engine.finish("a")
        for _ in range(2 + (stop - start) // 8):
            engine.cancel("nobody")  # a command, so that an idle step does not wait for one
            engine.step()
        start = stop
        if stop == FRAMES:
            break
    assert isinstance(heard[-1], Finished), heard
    assert engine.idle
    return heard, FRAMES - begin


@every_family
def test_resumed_behind_any_piece_equals_undisturbed(family: Callable[[], Codec]) -> None:
    codec = family()
    whole, _ = speak(codec)
    position = 0
    replayed = []
    for piece in whole.pieces[:-1]:
        position += len(piece.pcm)
        rest, decoded = speak(codec, piece, position)
        assert np.array_equal(rest.pcm, whole.pcm[position:]), (position, piece.frame)
        replayed.append(decoded - (FRAMES - position // codec.spec.samples_per_frame))
    # A bounded context is all that is decoded again, however long the stream was.
    spec = codec.spec
    if spec.context_frames is not None:
        assert max(replayed) <= spec.context_frames + max(PIECES) + 3


@every_family
def test_a_successor_of_a_successor_is_as_good(family: Callable[[], Codec]) -> None:
    codec = family()
    whole, _ = speak(codec)
    first = whole.pieces[: len(whole.pieces) // 2]
    position = sum(len(piece.pcm) for piece in first)
    second, _ = speak(codec, first[-1], position)
    for piece in second.pieces[:-1]:
        position += len(piece.pcm)
        rest, _ = speak(codec, piece, position)
        assert np.array_equal(rest.pcm, whole.pcm[position:])


def test_a_mark_of_another_family_fails_that_stream_alone() -> None:
    heard = Heard()
    engine = Engine(cantor(), slots=2, metrics=Metrics())
    engine.open(request("a"), heard.append, skip=40 * 640, frame=40, mark=b"?")
    engine.feed("a", sequence()[cantor().spec.replay_from(40) :])
    for _ in range(5):
        engine.cancel("nobody")
        engine.step()
    (event,) = heard
    assert isinstance(event, Failed)
    assert isinstance(event.error, MalformedMessage)
    assert engine.idle
