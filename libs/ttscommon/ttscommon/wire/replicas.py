"""A worker's report about itself, in the REPLICAS bucket."""

from __future__ import annotations

import msgspec

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.parameters import Parameter
from ttscommon.wire.subjects import StageName


class Voice(msgspec.Struct, frozen=True):
    """A voice as a client may ask for it."""

    id: str
    name: str
    language: str


class Model(msgspec.Struct, frozen=True):
    """A model that a worker serves.

    accepts: fields of a request, by their names in the API, that it obeys besides text and voice.
    languages: what `language` may be; anything where there are none. speeds: slowest and fastest
    that it speaks by itself. parameters: what it takes in `extra_params`.
    """

    name: str
    family: str
    sample_rate: int
    frame_rate_hz: float
    voices: tuple[Voice, ...] = ()
    speeds: tuple[float, float] = (1.0, 1.0)
    accepts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()


class Replica(msgspec.Struct, frozen=True):
    """One worker's capacity, as of its last report.

    batch: streams that one engine step may hold. queued: jobs of its stage that wait.
    step_s: median seconds by streams, in a talker of a round (see Pace), in a vocoder of a step.
    frame_s: seconds a frame costs a vocoder in its best batches; 0 before anything was measured.
    kv_free, kv_positions: of a talker's KV cache; both 0 where the model has none.
    loading: the model that it cannot serve yet, because its weights are being loaded. slowed: how
    many times as long its work takes because of other programs; `step_s` and `frame_s` include it.
    version: of Antiphon; empty before 0.2.0.
    """

    worker_id: str
    stage: StageName
    models: tuple[Model, ...]
    slots: int
    free: int
    batch: int = 32
    queued: int = 0
    step_s: dict[int, float] = {}
    frame_s: float = 0.0
    kv_free: int = 0
    kv_positions: int = 0
    draining: bool = False
    loading: str = ""
    slowed: float = 1.0
    version: str = ""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Replica:
        """Raises MalformedMessage."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise MalformedMessage(str(error)) from error
