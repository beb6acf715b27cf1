"""A worker's report about itself and its models."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from ttscommon.wire.parameters import Adapter, Parameter
from ttscommon.wire.structs import AsJson
from ttscommon.wire.subjects import StageName

# BCP 47, as far as voices need it: a language, then script, region and the like.
_TAG: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")

Gender: TypeAlias = Literal["female", "male", "neutral"]
MANY: Final = "mul"
"""The language of a voice that speaks many, each text in its own."""
LOUDNESS_LUFS: Final = -20.0
"""Of a voice's speech, integrated as ITU-R BS.1770 (EBU R 128) has it, on one channel."""
_MOST_GAIN_DB: Final = 20.0


class Voice(msgspec.Struct, frozen=True):
    """A voice as a client may ask for it.

    language: what it speaks unless a request says otherwise, as a BCP 47 tag ("en-US"), or MANY.
    gender: as listeners hear it; None is unknown. languages: tags of all that it speaks, its native
    language first; empty where `language` is the only one. adapter: the one that it is spoken with
    by itself. gain_db: what brings it to LOUDNESS_LUFS. short_db: by how much more a text of one
    word is louder, one of two, and so on, as voices say these quieter. Raises ValueError.
    """

    id: str
    name: str
    language: str
    gender: Gender | None = None
    languages: tuple[str, ...] = ()
    adapter: str = ""
    gain_db: float = 0.0
    short_db: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        gains = [self.gain_db, *(self.gain_db + more for more in self.short_db)]
        if not all(-_MOST_GAIN_DB <= gain <= _MOST_GAIN_DB for gain in gains):
            raise ValueError(f"voice {self.id!r}: a gain has {_MOST_GAIN_DB} dB at the most")
        for tag in (self.language, *self.languages):
            if not _TAG.fullmatch(tag):
                raise ValueError(f"voice {self.id!r}: {tag!r} is no BCP 47 tag")
        if self.gender not in (None, *get_args(Gender)):
            raise ValueError(f"voice {self.id!r}: no gender {self.gender!r}")

    @property
    def spoken(self) -> tuple[str, ...]:
        """Tags of all languages that it speaks, its native one first."""
        return self.languages or (self.language,)

    @property
    def native(self) -> str:
        """The language that it is listed under."""
        return self.spoken[0]

    def speaks(self, language: str) -> bool:
        """Whether it speaks a language; regions and scripts do not count ("en" is "en-GB")."""
        return any(_primary(language) == _primary(tag) for tag in self.spoken)


def _primary(tag: str) -> str:
    """ "en" of "en-US"."""
    return tag.partition("-")[0].lower()


class Model(msgspec.Struct, frozen=True):
    """A model that a worker serves.

    accepts: fields of a request, by their names in the API, that it obeys besides text and
    voice. languages: what `language` may be; anything where there are none. speeds: slowest and
    fastest that it speaks by itself. parameters: what it takes in `extra_params`. adapters:
    those that it brings along. blends: whether its voices can be mixed, see
    ttscommon.wire.parameters. row_width: of rows that it takes in place of text, see
    ttscommon.wire.tensors; 0 where it takes none. says: it answers, in words of its own: see
    ttscommon.wire.records.SaidText.
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
    adapters: tuple[Adapter, ...] = ()
    blends: bool = False
    row_width: int = 0
    says: bool = False


class Replica(msgspec.Struct, AsJson, frozen=True):
    """One worker's capacity, as of its last report.

    batch: streams that one engine step may hold. queued: jobs of its stage that wait.
    step_s: median seconds by streams, in a talker of a round (RoundTimes), in a vocoder of a step.
    frame_s: seconds a frame costs a vocoder in its best batches; 0 before anything was measured.
    kv_free, kv_positions: of a talker's KV cache, in a vocoder frames whose state there is memory
    for; both 0 where the model has none.
    loading: the model that it cannot serve yet, because its weights are being loaded. slowed: how
    many times as long its work takes because of other programs; `step_s` and `frame_s` include it.
    version: of Antiphon; empty before 0.2.0. loaded: whether the model is in memory; one that is
    not is loaded by its next job, and what was measured is of the last time. memory_bytes: what it
    takes there; 0 where that is not known.
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
    loaded: bool = True
    memory_bytes: int = 0
