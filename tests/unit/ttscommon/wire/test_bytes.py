"""Every struct as the bytes that it travelled as: replicas of two releases serve one deployment."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from ttscommon.cluster.leases import Lease
from ttscommon.wire.epochs import FULL, TAKEN, HandOver, Holding
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import (
    AudioChunk,
    Cancel,
    Checkpoint,
    CodecChunk,
    End,
    Listening,
    Message,
    Playback,
    Position,
    Reference,
    RowsPiece,
    Sampling,
    SpeechRequest,
    Spent,
    Takeover,
    Tensor,
    TextPiece,
    WordTime,
    decode,
    encode,
)
from ttscommon.wire.pieces import Boundary, Mark, Pause, Phones
from ttscommon.wire.replicas import Model, Replica, Voice
from ttscommon.wire.tensors import FloatRows

MARKS: Final = (Mark(2, Pause(0.5)), Mark(4, Boundary()), Mark(5, Phones("ab", "a b", "ipa", True)))
REQUEST: Final = SpeechRequest(
    "r-1",
    "vesper",
    "one",
    "hello, you",
    text_final=False,
    marks=MARKS,
    language="de",
    seed=7,
    speed=1.25,
    sampling=Sampling(temperature=0.5, top_k=3, top_p=0.9, max_new_tokens=9),
    priority=2,
    tenant="acme",
    created_unix_s=1.5,
    instructions="softly",
    task_type="Base",
    whole_text=True,
    reference=Reference(f"{'a' * 16}-{'b' * 64}", "said", True, True, "key.1"),
    listener_timeout_s=9.0,
    again=True,
)
WORDS: Final = (WordTime("hello", 0.25, 0.5),)
SPENT: Final = (Spent("talker", 0.125, 0.0625),)
MESSAGES: Final[dict[str, Message]] = {
    "request": REQUEST,
    "shortest request": SpeechRequest("r", "m", "v", ""),
    "request to remake": REQUEST.for_remaking(),
    "text piece": TextPiece("r", 5, " there", MARKS[:1], 3),
    "rows piece": RowsPiece(
        "r", 3, FloatRows.of("media", np.array([[1.0, -2.5]], np.float32), "bf16", [[1, 2, 3]]), 2
    ),
    "codec chunk": CodecChunk(
        "r", 7, {"codes": Tensor.of(np.arange(6, dtype=np.int16).reshape(3, 2))}, WORDS, SPENT, 2
    ),
    "audio chunk": AudioChunk(
        "r",
        640,
        16_000,
        Tensor.of(np.arange(3, dtype=np.int16)),
        WORDS,
        SPENT,
        Checkpoint(4, b"mark", (0.25, 0.5)),
        5,
    ),
    "position": Position("r", 9, Checkpoint(4, b"mark"), 6),
    "takeover": Takeover("r", 10, 2, Checkpoint(1)),
    "end": End("r", 10, "ok"),
    "end with all": End("r", 10, "error", "internal", "failed", "text", REQUEST.for_remaking(), 8),
    "cancel": Cancel("r", "gone"),
    "playback": Playback("r", 1.5),
    "listening": Listening("r", "gateway-1"),
}
STRUCTS: Final[dict[str, Any]] = {
    "handover": HandOver(REQUEST, 5, "$JS.ACK.jobs", 3, 1, 2, 4, {"traceparent": "00"}, 6, ("w",)),
    "holding": Holding("talker", ("r1", "r2")),
    "lease": Lease("w", "vocoder", "r", 5, "$JS.ACK", 1, 2, 3, True, 4, ("x", "y")),
    "replica": Replica(
        "w",
        "talker",
        (Model("m", "vesper", 24_000, 12.5, (Voice("v", "V", "en"),), (0.5, 2.0), ("seed",)),),
        slots=8,
        free=3,
        step_s={1: 0.25, 8: 0.5},
        loading="n",
    ),
}
BYTES: Final[dict[str, str]] = json.loads(Path(__file__).with_name("recorded.json").read_bytes())


def extends(new: Any, old: Any) -> bool:
    """Whether a reader that knows `old` finds all of it in `new`: fields may be added."""
    if isinstance(old, dict):
        return old.keys() <= new.keys() and all(extends(new[name], old[name]) for name in old)
    if isinstance(old, list):
        return len(new) >= len(old) and all(map(extends, new, old))
    return bool(new == old) and type(new) is type(old)


def plain(data: bytes) -> Any:
    """What the bytes say, as maps and lists."""
    return msgspec.json.decode(data) if data[:1] == b"{" else msgspec.msgpack.decode(data)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_travels_as_in_earlier_releases(name: str) -> None:
    earlier = bytes.fromhex(BYTES[name])
    assert decode(earlier) == MESSAGES[name] == decode(encode(MESSAGES[name]))
    assert extends(plain(encode(MESSAGES[name])), plain(earlier))


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_beside_the_messages_travels_as_in_earlier_releases(name: str) -> None:
    earlier, kind = bytes.fromhex(BYTES[name]), type(STRUCTS[name])
    assert kind.decode(earlier) == STRUCTS[name] == kind.decode(STRUCTS[name].encode())
    assert extends(plain(STRUCTS[name].encode()), plain(earlier))
    for damaged in (b"", b"\xc1", b"\x80", earlier[:-1], b'{"epoch":1}'):
        with pytest.raises(MalformedMessage):
            kind.decode(damaged)


def test_a_worker_answers_a_handover_in_one_letter() -> None:
    assert (TAKEN, FULL) == (b"+", b"-")
