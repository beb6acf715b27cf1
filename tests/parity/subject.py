"""What a family tells the runner of parity: how its checkpoints are written, and what it is asked.

A family of the registry is `tests/parity/families/NAME.py`, whose `FAMILY` is a `Subject`, found by
name; codecs are in `tests/parity/codecs.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import numpy as np
import torch
from msgspec.structs import replace
from torch import Tensor

from tests.parity.material import gumbel
from ttscommon.wire.fields import SILENT, Arrays, Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest
from ttscommon.wire.pieces import Piece, Text
from ttsfamilies.base.lm.answers import BETWEEN, MOST_BETWEEN, NO_ID, TOKEN
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.sampling import Noise

Heads = tuple[int, int, int]


class Case(Protocol):
    """One request of which a golden tells the frames."""

    @property
    def name(self) -> str:
        """Of its own among the family's."""

    @property
    def checkpoint(self) -> str:
        """The name of the folder that the reference ran on."""


C = TypeVar("C", bound=Case)


class Subject(ABC, Generic[C]):
    """A talker and its goldens.

    environment: the reference runs in `build/goldens/ENVIRONMENT`, made of the requirements in
    `reference/ENVIRONMENT.txt`; empty where it is asked as the tests run. published_heads: heads,
    KV heads and head_dim of the published caches, by name. blocks: of the KV cache that the cases
    need, sixteen at once. atol: by so much may fields of real numbers differ from the reference's;
    heard_atol: and what is derived of recordings.
    loads, ids: the family's `load`, and how many ids a draw is among. noise: the goldens', if
    it is none of draws of ids. steps: draws of a frame. speed: what is spoken where it is compared.
    """

    cases: ClassVar[Sequence[Any]]
    environment: ClassVar[str]
    published_heads: ClassVar[Mapping[str, Heads]] = {}
    blocks: ClassVar[int] = 512
    atol: ClassVar[float] = 0.0
    heard_atol: ClassVar[float] = 1e-5
    loads: ClassVar[staticmethod[..., Any]]
    ids: ClassVar[int]
    noise: ClassVar[type[Noise] | None] = None
    steps: ClassVar[int] = 1
    speed: ClassVar[SpeechRequest | None] = None

    @property
    def checkpoints(self) -> Sequence[str]:
        """Names of what the cases run on, in their order."""
        return tuple(dict.fromkeys(case.checkpoint for case in self.cases))

    def of(self, checkpoint: str) -> Sequence[C]:
        """The cases of a checkpoint."""
        return [case for case in self.cases if case.checkpoint == checkpoint]

    @abstractmethod
    def write(self, folder: Path, checkpoint: str) -> None:
        """Write a synthetic checkpoint."""

    def write_all(self, folder: Path) -> None:
        """Write all that the reference reads, below a folder."""
        for checkpoint in self.checkpoints:
            self.write(folder / checkpoint, checkpoint)

    def load(self, folder: Path) -> TalkerModel:
        """Load it, with the goldens' noise in place of our own."""
        model = self.loads("m", folder)
        model.noise = self.noise or golden_noise(self.ids)
        return model

    @abstractmethod
    def request(self, case: C) -> SpeechRequest:
        """A case in our API's terms, under any request id."""

    def pieces(self, case: C) -> Sequence[Piece]:
        """What it says, where that is more than the request's text."""
        return [Text(self.request(case).text)]

    def spoken_for_speed(self, batch: int) -> Sequence[SpeechRequest]:
        """What `reference/NAME.py` speaks where its speed is compared, in our API's terms.

        Empty where `parity` does not compare it.
        """
        if self.speed is None:
            return ()
        return [replace(self.speed, request_id=f"r{i}", seed=i) for i in range(batch)]

    def heard_for_speed(self) -> Arrays | None:
        """What was derived of the recording that it is spoken with, where a model needs one."""
        return None

    def derived(self, model: TalkerModel, case: C) -> Derived:
        """What the model derives of a case's recordings."""
        del model, case
        return Derived()

    def prompts(self, case: C, units: Sequence[Any]) -> tuple[Any, Any]:
        """What a case's units have of ids, and what the reference's prompt has: the same."""
        del case, units
        return None, None

    def recorded(self, case: C) -> Mapping[str, Any]:
        """What the reference derives of a case's recording, by our names."""
        del case
        return {}

    @abstractmethod
    def wanted(self, case: C) -> Arrays:
        """All that a log has of the reference's frames, [frames, ...] each."""


SOUND: Final = Reference("0" * 16 + "-" + "0" * 64)
_DRAWING: Final = {
    **{name: name for name in ("temperature", "top_k", "top_p")},
    "repetition_penalty": "penalty",
}


def asked(case: Any, voice: str = "", **more: Any) -> SpeechRequest:
    """A case whose fields have the usual names; a pair is of codebook 0 and of the others."""
    most = getattr(case, "frames", getattr(case, "tokens", None))
    told: dict[str, Any] = {"max_new_tokens": most}
    for ours, name in _DRAWING.items():
        value = getattr(case, name, None)
        if isinstance(value, tuple):
            value, told[f"subtalker_{ours}"] = value
        told[ours] = value
    made = {"text": getattr(case, "text", ""), "sampling": Sampling(**told), **more}
    return SpeechRequest("r", "m", voice, seed=case.seed, **made)


def golden_noise(ids: int) -> type[Noise]:
    """The goldens' noise of draws among `ids` ids, keyed by seed, frame (or step) and draw."""

    class Golden(Noise):
        def gumbel(self, draw: int, ids: Tensor | int) -> Tensor:
            keys = zip(self.seed.tolist(), self.frame.tolist(), strict=True)
            whole = torch.from_numpy(np.stack([gumbel(*key, draw, count) for key in keys]))
            return whole[:, :ids] if isinstance(ids, int) else whole.gather(1, ids)

        def rows(self, index: Tensor) -> Golden:
            return Golden(self.seed[index], self.frame[index])

    count = ids
    return Golden


def golden_normals(drawn: Callable[[int, int], Any]) -> type[Noise]:
    """The goldens' noise of frames: `drawn` of seed and frame, all of a frame in one draw."""

    class Golden(Noise):
        def normal(self, draw: int, count: int) -> Tensor:
            rows = zip(self.seed.tolist(), self.frame.tolist(), strict=True)
            found = np.stack([drawn(seed, frame).reshape(-1) for seed, frame in rows])
            assert (draw, found.shape[1]) == (0, count)
            return torch.from_numpy(found)

    return Golden


def answered(ids: Sequence[int], first: int, codes: int) -> Arrays:
    """Ids of an answer as they are logged: tokens of sound, and what is said between them."""
    rows, between = list[tuple[int, list[int], int]](), list[int]()
    for id in ids:
        if 0 <= id - first < codes:
            rows.append((id - first, between, 0))
            between = []
        else:
            between.append(id)
        if len(between) == MOST_BETWEEN:
            rows.append((0, between, 1))
            between = []
    rows += [(0, between, 1)] * bool(between)
    padded = [[*row, *[NO_ID] * (MOST_BETWEEN - len(row))] for _, row, _ in rows]
    return {
        TOKEN: np.array([token for token, _, _ in rows], np.int16),
        BETWEEN: np.array(padded, np.int32),
        SILENT: np.array([silent for _, _, silent in rows], np.uint8),
    }
