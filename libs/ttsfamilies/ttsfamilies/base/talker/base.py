"""The interface of a model family, and all that the engine knows of it.

A family has two sides. The *host* side (`Family`, `Prepared`, `TalkerStream`) is plain Python: it
reads text, says which positions of a stream to compute next, and keeps the books of what was
computed. The *device* side (`computation.Computation`) computes steps over rows of tensors in fixed
shapes and reads nothing back, so that a step can be captured as a graph and the host may be a step
behind. `model.TalkerModel` is both.
Everything between (slots, KV blocks, batching, chunks, recovery, metrics) is the engine's and the
same for all families.

The contract that recovery stands on: a stream's frames follow from its request, its text and the
frames before them. They depend neither on the batch nor on timing; on the CPU they are the same
bits, on a device the log decides (docs/decisions/engine-interface.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

from ttscommon.wire import parameters
from ttscommon.wire.errors import BadRequest, UnknownVoice
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field
from ttscommon.wire.lookups import PhonesFound
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import ADAPTER, Adapter, Parameter
from ttscommon.wire.pieces import Piece
from ttscommon.wire.replicas import Model, Voice
from ttsfamilies.base.facts import FamilyFacts
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.guard import RunawaySigns, Watch
from ttsfamilies.base.talker.options import Adaptable
from ttsfamilies.base.talker.streams import Runner, TalkerStream

# A number of each slot or position.
NUMBER: Final = Field((), "i8")
REAL: Final = Field((), "f4")


@dataclass(frozen=True)
class CacheSpec:
    """One paged KV cache. A family may have several, which advance together.

    sliding_window: positions that each one attends to, itself the last of them; 0 for all.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    sliding_window: int = 0

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.kv_heads, self.head_dim) < 1:
            raise ValueError("cache dimensions are positive")
        if self.sliding_window < 0:
            raise ValueError("a position attends to itself")
        if self.heads % self.kv_heads:
            raise ValueError("query heads are a multiple of KV heads")


@dataclass(frozen=True)
class ModelSpec:
    """What the engine and the cluster need to know of a loaded model.

    frame: what the vocoder reads of a frame. replay: what is logged beside it for a talker's
    successor. raw: what a step computes of a frame; where it differs from frame and replay
    together, `TalkerModel.render` makes the one from the other. state: per slot, on the device.
    inputs: per position of a prompt. max_positions: of one prompt with all of its frames.
    width: most frames that a step can gain; it tries one unless its plan is wider. Those behind the
    first are drafts. rounds: most such steps that a launch on a processor makes, one behind the
    other. branches: most that a stream has, one or two; see TalkerStream. window: frames
    of a step of a family whose frames do not follow from one another, on a device, where each step
    has as many; see segments.SegmentStream. 0: they do. delay_frames: so many more are logged of
    each sequence than sound, whose codes are delayed. lag_frames: so many of those logged last give
    no sound before more come: these, and what the codec looks ahead. accepts, languages, speeds,
    parameters, adapters, blends, row_width, says: see replicas.Model.
    """

    name: str
    family: str
    sample_rate: int
    frame_rate_hz: float
    voices: tuple[Voice, ...]
    frame: Mapping[str, Field]
    replay: Mapping[str, Field] = field(default_factory=dict)
    raw: Mapping[str, Field] = field(default_factory=dict)
    state: Mapping[str, Field] = field(default_factory=dict)
    inputs: Mapping[str, Field] = field(default_factory=dict)
    caches: Mapping[str, CacheSpec] = field(default_factory=dict)
    max_positions: int = 1024
    width: int = 1
    rounds: int = 1
    window: int = 0
    branches: int = 1
    delay_frames: int = 0
    lag_frames: int = 0
    chunks: ChunkSeconds = field(default_factory=ChunkSeconds)
    accepts: frozenset[str] = frozenset()
    languages: tuple[str, ...] = ()
    speeds: tuple[float, float] = (1.0, 1.0)
    parameters: tuple[Parameter, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    blends: bool = False
    row_width: int = 0
    says: bool = False

    def listed(self, name: str) -> Model:
        """See StageSpec."""
        return Model(
            name,
            self.family,
            self.sample_rate,
            self.frame_rate_hz,
            self.voices,
            self.speeds,
            tuple(sorted(self.accepts)),
            self.languages,
            self.parameters,
            self.adapters,
            self.blends,
            self.row_width,
            self.says,
        )

    @property
    def logged(self) -> Mapping[str, Field]:
        """All that a chunk in the log carries of a frame."""
        return {**self.frame, **self.replay}

    @property
    def renders(self) -> bool:
        """Whether frames need work outside the recurrence."""
        return bool(self.raw)


def stated(
    facts: FamilyFacts,
    name: str,
    sample_rate: int = 0,
    frame_rate_hz: float = 0.0,
    *,
    without: Collection[str] = frozenset(),
) -> dict[str, Any]:
    """What its family's facts say of a model's specification. sample_rate, frame_rate_hz: where the
    checkpoint says them. without: fields of a request that this one, of all of the family, does not
    obey.
    """
    return {
        "name": name,
        "family": facts.name,
        "sample_rate": sample_rate or facts.codec.sample_rate,
        "frame_rate_hz": frame_rate_hz or facts.codec.frame_rate_hz,
        "accepts": frozenset(facts.accepts).difference(without),
    }


class Prepared(ABC):
    """A request that its family has checked and read as far as its text goes.

    Used outside the engine's thread, by one caller at a time.
    """

    request: SpeechRequest

    @abstractmethod
    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Any]:
        """The text frontend: the units of these pieces for `TalkerStream.feed`, one by one.

        Raises NothingToSay if the text ends and nothing in it could be spoken.
        """


class Recordings(Protocol):
    """What of a recording `prepare` and the codec need."""

    @property
    def revision(self) -> str:
        """Names what `derive` computes with: other weights, another name. Letters and digits."""

    def derive(self, recording: bytes) -> Arrays:
        """Slow; from any thread. Raises BadRequest for what is no recording that can be used."""


class Family(ABC):
    """A loaded model as the engine sees it.

    measured_round_s: seconds of a round by streams (see Pace), as far as known before any traffic.
    depth: see Runner. exact: frames are the same bits whatever the batch and wherever a successor
    goes on; otherwise only what was heard is the same. cache_itemsize: bytes of a number of K or V.
    pauses: it makes silence of a `Pause`; for others `ServedFamily` does, and then has `silences`.
    adapters: where its networks can be adapted and the deployment wants it. signs: what it can see
    of a runaway; None where durations are bounded. watch, watched_code: see Guard. hears: turns
    with sound are for `hear`, not for `derive`. recordings: a voice's, or of what was said; None
    where there are none. examples: texts to warm up with, a long one first.
    """

    spec: ModelSpec
    depth: int = 0
    exact: bool = True
    cache_itemsize: int = 4
    pauses: bool = False
    adapters: Adaptable | None = None
    signs: RunawaySigns | None = RunawaySigns()
    silences: bool = False
    watch: Watch | None = None
    watched_code: str = ""
    hears: bool = False
    recordings: Recordings | None = None
    examples: Sequence[str] = (
        "This first sentence is spoken to warm up, and is then thrown away.",
        "So.",
    )
    measured_round_s: Mapping[int, float] = MappingProxyType({})

    def free_bytes(self) -> int | None:
        """Memory that is free where the model computes; None on the host."""
        return None

    @abstractmethod
    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Prepared:
        """Check the request and do what is slow and needs no text; from any thread.

        derived: what `derive`, or `hear`, made of the request's recordings. Raises BadRequest
        (UnknownVoice, ...) for what it cannot speak; turns and parameters have been held against
        the specification.
        """

    def fit(self, positions: int) -> None:  # noqa: B027
        """The KV cache holds so many positions: `prepare` refuses what may not fit from now on."""

    @abstractmethod
    def open(self, prepared: Any) -> TalkerStream:
        """A stream without text, of what `prepare` gave. Cheap: it runs between two steps of other
        streams.
        """

    @abstractmethod
    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        """What computes: for `rows` rows of slot state, `blocks` blocks of each KV cache."""

    @property
    def revision(self) -> str:
        """See Recordings."""
        if self.recordings is None:
            raise NotImplementedError("this family clones no voices")
        return self.recordings.revision

    def derive(self, recording: bytes) -> Arrays:
        """See Recordings."""
        if self.recordings is None:
            raise BadRequest("this model cannot clone a voice", param="ref_audio")
        return self.recordings.derive(recording)

    def hear(self, recording: bytes) -> Arrays:
        """What `prepare` needs of a turn with sound, of a family that `hears`; likewise."""
        return self.derive(recording)

    def phones(self, text: str, language: str) -> PhonesFound | None:
        """A text of a language (a BCP 47 tag) as the model reads it, from any thread; None where it
        reads letters or tokens. Raises BadRequest.
        """
        return None

    def style(self, voice: str) -> Array | None:
        """[lengths, values] float32 that a voice or a blend is made of, from any thread; None where
        voices are no tables. Raises UnknownVoice.
        """
        return None

    def aside(self) -> AbstractContextManager[object]:
        """What recordings are read in, by other threads: steps must not wait for those, nor they
        for steps.
        """
        return nullcontext()

    def example_reference(self) -> Arrays | None:
        """What to warm up with where `prepare` needs a reference."""
        return None


# Checks of requests, which may not have come by a gateway: of every one, and those that families
# make while they prepare one.


_FEW: Final = 9


def check(spec: ModelSpec, request: SpeechRequest) -> None:
    """Raises BadRequest for what the model, as its specification says, knows nothing of."""
    if request.turns and "turns" not in spec.accepts:
        raise BadRequest("this model goes on from no turns: send the text alone", param="turns")
    if request.adapter is not None and ADAPTER not in spec.accepts:
        raise BadRequest("this model, as it is served here, takes no adapters", param=ADAPTER)
    if request.speaker and "speaker" not in spec.accepts:
        raise BadRequest("this model has one speaker at a time", param="speaker")
    if request.rows and not spec.row_width:
        raise BadRequest("this model takes no rows: send text", param="rows")
    slowest, fastest = spec.speeds
    if slowest < fastest and not slowest <= request.speed <= fastest:
        raise BadRequest(f"speed is {slowest} to {fastest} with this model", param="speed")
    parameters.checked(spec.parameters, request.extra_params)


def known_voice(voice: str, known: Iterable[str], *, clones: bool = False) -> None:
    """Raises UnknownVoice, which says a few that there are. clones: others are recordings."""
    if voice not in (names := tuple(known)):
        there = ", ".join(names[:_FEW]) or "none"
        more = ", and others are made of a recording" if clones else ""
        raise UnknownVoice(f"no voice {voice!r}; there are {there}{more}", param="voice")


def not_cloning(request: SpeechRequest) -> None:
    """Raises BadRequest for a recording."""
    if request.reference is not None:
        raise BadRequest("this model cannot clone a voice", param="ref_audio")


def recorded(reference: Arrays | None) -> Arrays:
    """What was derived of the voice's recording; raises BadRequest without one."""
    if reference is None:
        raise BadRequest(
            "this model speaks with the voice of a recording: send ref_audio, or name a voice made"
            " of one",
            param="ref_audio",
        )
    return reference
