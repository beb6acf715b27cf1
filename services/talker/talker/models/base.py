"""What a model family implements, and all that the engine knows of it.

A family has two sides. The *host* side (`Family`, `Prepared`, `TalkerStream`) is plain Python: it
reads text, says which positions of a stream to compute next, and keeps the books of what was
computed. The *device* side (`TalkerModel`) computes steps over rows of tensors in fixed shapes and
reads nothing back, so that a step can be captured as a graph and the host may be a step behind.
Everything between (slots, KV blocks, batching, chunks, recovery, metrics) is the engine's and the
same for all families.

The contract that recovery stands on: a stream's frames follow from its request, its text and the
frames before them. They depend neither on the batch nor on timing; on the CPU they are the same
bits, on a device the log decides (docs/decisions/0007).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from talker.engine.chunker import ChunkSeconds
from ttscommon.errors import BadRequest
from ttscommon.fields import Array, Arrays, Field
from ttscommon.messages import SpeechRequest, WordTime
from ttscommon.pieces import Piece
from ttscommon.replicas import Model, Voice

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from talker.engine.runner import Runner
    from ttscommon.device.device import Device


@dataclass(frozen=True)
class CacheSpec:
    """One paged KV cache. A family may have several, which advance together."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.kv_heads, self.head_dim) < 1:
            raise ValueError("cache dimensions are positive")
        if self.heads % self.kv_heads:
            raise ValueError("query heads are a multiple of KV heads")


@dataclass(frozen=True)
class ModelSpec:
    """What the engine and the cluster need to know of a loaded model.

    frame: what the vocoder reads of a frame. replay: what is logged beside it for a talker's
    successor. raw: what a step computes of a frame; where it differs from frame and replay
    together, `TalkerModel.render` makes the one from the other. state: per slot, on the device.
    inputs: per position of a prompt. max_positions: of one prompt with all of its frames.
    width: most frames that a step can gain; it tries one unless its plan is wider.
    accepts, languages, speeds: see replicas.Model.
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
    chunks: ChunkSeconds = field(default_factory=ChunkSeconds)
    accepts: frozenset[str] = frozenset()
    languages: tuple[str, ...] = ()
    speeds: tuple[float, float] = (1.0, 1.0)

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
        )

    @property
    def logged(self) -> Mapping[str, Field]:
        """All that a chunk in the log carries of a frame."""
        return {**self.frame, **self.replay}

    @property
    def renders(self) -> bool:
        """Whether frames need work outside the recurrence."""
        return bool(self.raw)


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step of a stream computes positions start .. start + count of its cache.

    `start` 0 means that nothing cached is needed any more. Positions before `start` are cached.
    `decode`: an ordinary step, whose inputs are in the slot's state; everything else is a prompt.
    Of its positions the first is certain, and the model drafts those behind it.
    `partial`: more of the prompt follows in a later step, and no frame is sampled in this one.
    """

    start: int
    count: int
    decode: bool = False
    partial: bool = False

    def __post_init__(self) -> None:
        if self.start < 0 or self.count < 1:
            raise ValueError("a plan starts at 0 or later and computes something")

    @property
    def end(self) -> int:
        return self.start + self.count

    def widened(self, width: int, limit: int) -> Plan:
        """A decode plan with `width` positions, as far as there are `limit` in all."""
        return Plan(self.start, max(1, min(width, limit - self.start)), decode=True)

    def cut(self, count: int) -> tuple[Plan, Plan | None]:
        """The first `count` positions, and the rest if there is one."""
        if count >= self.count:
            return self, None
        rest = Plan(self.start + count, self.count - count, partial=self.partial)
        return Plan(self.start, count, partial=True), rest


class SlotWriter(Protocol):
    """Writes a stream's own row of the per-slot state, before the next launch reads it."""

    def __call__(self, name: str, value: Any, at: int = 0) -> None:
        """Set field `name` to a number or an array, the latter from its element `at` on."""


class TalkerStream(ABC):
    """One request inside a family: its text, what to compute next, and what was computed.

    Host only, no tensors; used by one thread.
    """

    @property
    @abstractmethod
    def frames(self) -> int:
        """Frames known so far: restored, taken and pending."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """Frames accepted and not yet taken."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """All text is spoken; nothing will be computed any more."""

    @abstractmethod
    def feed(self, units: Sequence[Any], *, final: bool) -> None:
        """Take what `Prepared.read` made of later text; after `final` there is no more."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Go on after these logged frames, all of the request so far; before the first plan."""

    @abstractmethod
    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        """The next step, or None while text is missing or when done. Changes nothing.

        `ahead` steps are in flight; suppose that each gained the frames it usually does and ended
        nothing. `dry`: the listener is about to run out of sound, so that a family that can do
        without text that is late does so, and logs it.
        """

    @abstractmethod
    def inputs(self, plan: Plan) -> Arrays:
        """What `ModelSpec.inputs` names, a row for each position of the plan.

        For a decode plan as well, when nothing is in flight: on the CPU one launch may mix both.
        """

    @abstractmethod
    def stage(self, write: SlotWriter) -> None:
        """Write what of the slot's state the device cannot know by itself, if it changed."""

    @abstractmethod
    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        """Take a step's result: 0 .. n raw frames, and positions 0 .. `cached` in the cache.

        `ended`: the sequence is over; the next plan starts another at 0.
        """

    @abstractmethod
    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        """The oldest `count` pending frames, raw, and the words that end in them."""

    @abstractmethod
    def evict(self) -> None:
        """The engine took cache and slot state away: the next plan starts at 0 and rebuilds them.

        What was in flight for this stream is lost with them.
        """


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


class Family(ABC):
    """A loaded model as the engine sees it.

    measured_round_s: seconds of a round by streams (see Pace), as far as known before any traffic.
    depth: see Runner. exact: frames are the same bits whatever the batch and wherever a successor
    goes on; otherwise only what was heard is the same. cache_itemsize: bytes of a number of K or V.
    """

    spec: ModelSpec
    depth: int = 0
    exact: bool = True
    cache_itemsize: int = 4
    measured_round_s: Mapping[int, float] = MappingProxyType({})

    @abstractmethod
    def prepare(self, request: SpeechRequest, reference: Arrays | None = None) -> Prepared:
        """Check the request and do what is slow and needs no text; from any thread.

        reference: what `derive` made of the request's recording. Raises BadRequest (UnknownVoice,
        ...) for what it cannot speak.
        """

    @abstractmethod
    def open(self, prepared: Prepared) -> TalkerStream:
        """A stream without text. Cheap: it runs between two steps of everybody else."""

    @abstractmethod
    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        """What computes: for `rows` rows of slot state, `blocks` blocks of each KV cache."""

    @abstractmethod
    def examples(self) -> Sequence[str]:
        """Texts to warm up with, a long one first."""

    @property
    def revision(self) -> str:
        """Names what `derive` computes with: other weights, another name. Letters and digits."""
        raise NotImplementedError("this family clones nobody")

    def derive(self, recording: bytes) -> Arrays:
        """What `prepare` and the codec need of a recording; slow, from any thread.

        Raises BadRequest for what is no recording that can be used.
        """
        raise BadRequest("this model cannot clone a voice", param="ref_audio")

    def example_reference(self) -> Arrays | None:
        """What to warm up with where `prepare` needs a reference."""
        return None


class Attend(Protocol):
    """The attention of one launch over one cache.

    (layer, q, k, v), each [tokens, heads, head_dim], stores k and v and returns the attention of q
    over all positions of its own sequence up to its own.
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


@dataclass
class Rows:
    """The rows of a launch, one a stream; padding rows have a reserved slot.

    slots: [rows] int64. positions: [tokens] int64, of every token computed, row by row. real: so
    many rows are not padding, and an `Out` may have no more; all of them where shapes are fixed.
    width: tokens of each row of a decode step, all but the first drafted by the model.
    """

    slots: Tensor
    positions: Tensor
    real: int
    width: int = field(default=1, kw_only=True)


@dataclass
class Prompts(Rows):
    """Rows of any length, their tokens one after the other.

    inputs: what `ModelSpec.inputs` names, [tokens, ...]. last: [rows] int64, the index of each
    row's last token. samples: [rows] bool, false where the prompt goes on in a later launch.
    """

    inputs: Mapping[str, Tensor]
    last: Tensor
    samples: Tensor


@dataclass
class Out:
    """What a launch gives, on the device, one row a stream.

    frames: raw fields, [rows, width, ...]. gained: [rows] int, how many of them are frames.
    ended: [rows] bool. bad: [rows] bool, not finite: this row fails, alone. kept: [rows] int,
    positions that stay in the cache; None where all of them do.
    """

    frames: Mapping[str, Tensor]
    gained: Tensor
    ended: Tensor
    bad: Tensor
    kept: Tensor | None = None


State = Mapping[str, "Tensor"]


class TalkerModel(Family):
    """The device side, in torch. All methods are called by the engine's thread.

    device: where its weights are, if not on the CPU, and what computes there. cache_dtype: of keys
    and values on a device, float32 if None. fixed_prompts: `prefill` has fixed shapes and reads
    nothing back, as `decode` does for all, so that prompts can be recorded too.
    """

    device: Device | None = None
    cache_dtype: torch.dtype | None = None
    fixed_prompts: bool = False

    def compute_on(self, device: Device | None) -> None:
        """From now on runners launch there, and a step behind; the weights are there already."""
        self.device = device
        self.depth, self.exact = int(device is not None), device is None
        if device is not None and self.cache_dtype is not None:
            self.cache_itemsize = self.cache_dtype.itemsize

    @abstractmethod
    def prefill(self, rows: Prompts, state: State, attend: Mapping[str, Attend]) -> Out:
        """Compute prompts, and one frame for each that ends here (or all, if not autoregressive).

        `state` has every field as [slots, ...] and is updated in place. Raises before it changes
        any state, or not at all.
        """

    @abstractmethod
    def decode(self, rows: Rows, state: State, attend: Mapping[str, Attend]) -> Out:
        """One step of every row, in fixed shapes and without reading anything back.

        Inputs come from the state. A row whose sequence is over gains nothing and stays as it is.
        """

    def render(self, raw: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Frames of many streams at once, [frames, ...]: raw fields to frame and replay fields."""
        return raw

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        if self.device is not None:
            from talker.engine.device_runner import DeviceRunner

            return DeviceRunner(self, rows, blocks, self.device, depth)
        from talker.engine.torch_runner import TorchRunner

        return TorchRunner(self, rows, blocks, depth)


__all__ = [
    "Array",
    "Arrays",
    "Attend",
    "CacheSpec",
    "Family",
    "Field",
    "ModelSpec",
    "Out",
    "Plan",
    "Prepared",
    "Prompts",
    "Rows",
    "SlotWriter",
    "State",
    "TalkerModel",
    "TalkerStream",
]
