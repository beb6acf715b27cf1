"""A request as Zonos takes it: its conditions, and the prompts of its text. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np

from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.errors import BadRequest, TextTooLong
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter
from ttscommon.wire.pieces import Pause, Piece, Text
from ttsfamilies.base.lm.codes import counts
from ttsfamilies.base.lm.request import PenalisedDrawing, tell
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.lmstream import LmStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.piper.phones import Sentence, Sentences
from ttsfamilies.zonos.facts import CODEBOOKS, EMOTIONS, END, IDS, MASK
from ttsfamilies.zonos.net import COLUMN
from ttsfamilies.zonos.phones import ESPEAK, LANGUAGE_IDS, OWN, code_of, ids_of

DELAY_PATTERN: Final = DelayPattern.even(CODEBOOKS)
# Instead of an id that a prompt decides: whatever is drawn.
FREE: Final = -1
SPEEDS: Final = 0.5, 2.0
GUIDED: Final = "guidance"
PHONES: Final = "phones"
# About 20 s of speech; the model was trained on 30 s at the most.
PASSAGE_PHONES: Final = 300
MOST_FRAMES: Final = 86 * 30  # of a passage, where a request does not ask for a number
_LEAST_FRAMES: Final = 86
_PLAIN: Final = (0.3077, 0.0256, 0.0256, 0.0256, 0.0256, 0.0256, 0.2564, 0.3077)
PARAMETERS: Final = (
    Parameter(GUIDED, "number", 2.0, "How much the conditions count; 1 is as drawn.", 1, 10),
    Parameter("min_p", "number", 0.1, "Codes less likely than this share are out.", 0, 1),
    Parameter("fmax", "number", 22_050.0, "Highest frequency of the sound, in Hz.", 0, 24_000),
    Parameter("pitch_std", "number", 20.0, "Deviation of pitch: 20 to 45 is plain.", 0, 400),
    Parameter("speaking_rate", "number", 15.0, "Phones a second, times speed.", 0, 40),
    *(
        Parameter(name, "number", share, "Share of the emotions' sum.", 0, 1)
        for name, share in zip(EMOTIONS, _PLAIN, strict=True)
    ),
    Parameter(
        PHONES,
        "choice",
        OWN,
        "What reads English: the project's frontend, or eSpeak NG where it is installed.",
        choices=(OWN, ESPEAK),
    ),
)


@dataclass(frozen=True)
class ZonosDrawing(PenalisedDrawing):
    """min_p: of the likeliest id's share; guidance: 1 is none."""

    min_p: float = 0.0
    guidance: float = 1.0

    @classmethod
    def of(cls, request: SpeechRequest, settings: Mapping[str, Any]) -> Self:
        """The request's settings over the reference's defaults."""
        usual = cls(1.0, 0, 1.0, 3.0, float(settings["min_p"]), float(settings[GUIDED]))
        return usual.with_asked(request.sampling)


def values_of(
    request: SpeechRequest, settings: Mapping[str, Any], speaker: Sequence[float] | None
) -> dict[str, Sequence[float]]:
    """What is known of each condition; raises BadRequest."""
    shares = [float(settings[name]) for name in EMOTIONS]
    if not (total := sum(shares)):
        raise BadRequest("one emotion at the least has a share", param="extra_params")
    found: dict[str, Sequence[float]] = {
        "emotion": [share / total for share in shares],
        "fmax": (float(settings["fmax"]),),
        "pitch_std": (float(settings["pitch_std"]),),
        "speaking_rate": (min(40.0, float(settings["speaking_rate"]) * request.speed),),
        "language_id": (float(LANGUAGE_IDS[code_of(request.language)]),),
    }
    return found if speaker is None else {**found, "speaker": speaker}


class ZonosPrompt(NamedTuple):
    """ids: of the positions before the columns, for each branch [2, positions] int64.

    columns: those that are known, [columns, CODEBOOKS] int64. opening: ids of the first rows that
    are drawn, where the prompt decides them, [rows, CODEBOOKS] int64. limit: frames that may
    follow.
    """

    ids: Array
    columns: Array
    opening: Array
    limit: int

    @property
    def length(self) -> int:
        return int(self.ids.shape[1]) + len(self.columns)

    @property
    def frames(self) -> int:
        """Rows that may follow."""
        return self.limit + DELAY_PATTERN.most


class PhoneRows(NamedTuple):
    """Where a prefix has its phones: so many rows of conditions `before` them and in all.

    known: of each row, whether anything is said of it.
    """

    before: int
    known: tuple[bool, ...]

    def ids(self, phones: Sequence[int]) -> Array:
        """Of both branches: the second is told of the phones alone. See net.COLUMN for the rows."""
        count = len(self.known)
        told = [-2 - i if known else -2 - count - i for i, known in enumerate(self.known)]
        untold = [-2 - count - i for i in range(count)]
        branches = [
            [*rows[: self.before], *phones, *rows[self.before :]] for rows in (told, untold)
        ]
        return np.array(branches, np.int64)


class ZonosPrepared(Prepared):
    """A request whose text is read passage by passage: the model needs all of one at once.

    told: [rows, dim], see Conditions. heard: codes of a recording that the speech goes on from,
    [frames, CODEBOOKS], and words: what is said in it.
    """

    def __init__(
        self,
        request: SpeechRequest,
        asked: ZonosDrawing,
        told: Array,
        layout: PhoneRows,
        sentences: Sentences,
        positions: int,
        heard: Array | None = None,
        words: str = "",
    ) -> None:
        """positions: of prompt and speech."""
        self.request, self.asked, self.conditioning = request, asked, told
        self._layout, self._positions = layout, positions
        self._reader, self._held = Reader(sentences), ""
        none = np.zeros((0, CODEBOOKS), np.int64)
        self._heard = none if heard is None else heard.astype(np.int64)
        self._words = _joined(Reader(sentences).read([Text(words)], final=True)) if words else ""

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[ZonosPrompt]:
        """A prompt for each passage that is certain; raises TextTooLong, NothingToSay."""
        for found in self._reader.read(pieces, final=final):
            said = _joined([found])
            if self._held and len(self._held) + len(said) >= PASSAGE_PHONES:
                yield self._prompt()
                self._held = ""
            self._held = f"{self._held} {said}".strip()
        if final and self._held:
            yield self._prompt()
            self._held = ""

    def _prompt(self) -> ZonosPrompt:
        phones = ids_of(f"{self._words} {self._held}".strip())
        rows = DELAY_PATTERN.rows(self._heard, MASK, FREE)
        begin = np.full((1, CODEBOOKS), MASK)
        columns = np.concatenate([begin, rows[: len(self._heard)]])
        ids = self._layout.ids(phones)
        room = self._positions - ids.shape[1] - len(columns) - DELAY_PATTERN.most
        if room < _LEAST_FRAMES:
            raise TextTooLong(
                f"a sentence of {len(phones)} phones leaves no room for its speech: split it, or"
                " send a shorter recording",
                param="input",
            )
        limit = min(self.request.sampling.max_new_tokens or MOST_FRAMES, room)
        return ZonosPrompt(ids, columns, rows[len(self._heard) :], limit)


def _joined(found: Iterator[Any] | Sequence[Any]) -> str:
    """Symbols of sentences; pauses are made for this family."""
    said = (one for one in found if not isinstance(one, Pause))
    parts = []
    for one in said:
        assert isinstance(one, Sentence)
        parts.append("".join(one.symbols))
    return " ".join(parts)


def speaker_of(reference: Arrays | None, preset: Array | None) -> Sequence[float] | None:
    """Of a recording, or of a voice that the checkpoint brings; None where neither is named."""
    if reference is not None:
        return [float(one) for one in reference["speaker"].reshape(-1)]
    return None if preset is None else [float(one) for one in preset]


def ends(rows: Array) -> Array:
    """Of rows [rows, CODEBOOKS] which is the last of its first codebook, [rows, 1] bool: an end
    that is drawn first of all is a code like others, as the model was trained.
    """
    found: Array = rows[:, :1] == END
    found[:1] = False
    return found


class ZonosStream(LmStream):
    """See TalkerStream. With guidance it has a second branch, which is told of the phones alone."""

    frame = MappingProxyType({"codes": Field((CODEBOOKS,), "i2", IDS)})

    def __init__(self, prepared: ZonosPrepared) -> None:
        super().__init__()
        self._prepared = prepared

    @property
    def branches(self) -> int:
        return 1 if self._prepared.asked.guidance == 1.0 else 2

    def positions(self, branch: int) -> Arrays:
        prompt: ZonosPrompt = self.passage
        before, rows = prompt.ids.shape[1], self.spoken["codes"]
        none = np.zeros((before, CODEBOOKS), np.int64)
        codes = np.concatenate([none, prompt.columns, rows])
        ids = np.full(len(codes), COLUMN)
        ids[:before] = prompt.ids[branch]
        return {"id": ids, "codes": codes}

    def _last(self, count: int) -> Array:
        """Columns before the next row; the first of a passage stands twice there."""
        first = self.passage.columns
        return np.concatenate([first[:1], first, self.spoken["codes"]])[-count:]

    def begin(self, write: SlotWriter) -> None:
        before, last = self._last(2)
        write("before", before)
        write("last", last)
        for name, number in counts(ends(self.spoken["codes"]), DELAY_PATTERN).items():
            write(name, number)
        write("limit", self.passage.limit)
        write("opening", self.passage.opening.reshape(-1))
        write("told", self._prepared.conditioning.reshape(-1))
        tell(write, self._prepared.request.seed, self._prepared.asked)
