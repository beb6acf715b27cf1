"""A request as GLM-4-Voice takes it: a conversation whose last turn is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.answers import AnswerIds
from ttsfamilies.base.lm.request import Drawing, IdsPrompt, WholeText, chosen, limited, speakable
from ttsfamilies.base.lm.tokenizer import RankedTokenizer
from ttsfamilies.base.lm.turns import EncodedTurn

TOKENIZER: Final = "glm-4-voice-tokenizer"
"""Folder within the checkpoint of what hears, named as it is published."""
RATE_HZ: Final = 12.5
MOST_POSITIONS: Final = 8192
_THETA: Final = 10_000.0


@dataclass(frozen=True)
class GlmConfig:
    """config.json of the language model, by ChatGLM's names."""

    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    multi_query_group_num: int
    kv_channels: int
    layernorm_epsilon: float
    padded_vocab_size: int
    seq_length: int
    model_type: str = "chatglm"
    rope_ratio: float = 1.0
    rmsnorm: bool = True
    post_layer_norm: bool = True
    add_qkv_bias: bool = True
    add_bias_linear: bool = False
    multi_query_attention: bool = True
    original_rope: bool = True
    apply_residual_connection_post_layernorm: bool = False
    tie_word_embeddings: bool = False

    @property
    def theta(self) -> float:
        return _THETA * self.rope_ratio

    @property
    def positions(self) -> int:
        return min(self.seq_length, MOST_POSITIONS)


@dataclass(frozen=True)
class HearingConfig:
    """config.json of what hears: a Whisper encoder as far as its codebook."""

    num_mel_bins: int
    d_model: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    max_source_positions: int
    pooling_kernel_size: int
    pooling_position: int
    pooling_type: str
    quantize_vocab_size: int
    quantize_position: int
    quantize_causal_block_size: int
    encoder_causal_convolution: bool


def load_config(folder: Path) -> GlmConfig:
    """Read and check config.json; raises CheckpointError."""
    path = folder / "config.json"
    c = read_json(path, GlmConfig)
    usual = c.rmsnorm and c.post_layer_norm and c.multi_query_attention and c.original_rope
    unusual = c.add_bias_linear or c.apply_residual_connection_post_layernorm
    if not usual or unusual or c.tie_word_embeddings or not c.add_qkv_bias:
        raise CheckpointError(f"{path}: other layers than GLM-4's are not served")
    if c.num_attention_heads % c.multi_query_group_num or c.kv_channels % 4:
        raise CheckpointError(f"{path}: its heads fit no groups, or no rotation")
    return c


def load_hearing_config(folder: Path) -> HearingConfig:
    """Read and check config.json in the folder of what hears; raises CheckpointError."""
    path = folder / TOKENIZER / "config.json"
    c = read_json(path, HearingConfig)
    if c.pooling_type != "avg" or c.pooling_position != c.quantize_position:
        raise CheckpointError(f"{path}: other pooling than by averages at the end is not served")
    if not c.encoder_causal_convolution or c.num_mel_bins != 128:
        raise CheckpointError(f"{path}: other convolutions than causal ones of 128 mel bands")
    if c.quantize_causal_block_size % c.pooling_kernel_size:
        raise CheckpointError(f"{path}: blocks that are no whole tokens")
    return c


VOICE: Final = "glm-4-voice"
USER: Final = 0
# How GLM-4 divides a text, as its own tokenizer class has it.
PRE_TOKEN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# As the authors' demo asks for an answer; what was spoken has a space behind it there.
_ASKS: Final = (
    "User will provide you with a {} instruction. Do it step by step. First, think about the"
    " instruction and respond in a interleaved manner, with 13 text token followed by 26 audio"
    " tokens."
)
_SPOKEN, _WRITTEN = _ASKS.format("speech") + " ", _ASKS.format("text")
_ANSWERS: Final = "streaming_transcription\n"
_NEW_LINE: Final = "\n"
_PROMPT_SHARE: Final = 2


# The demo's where a request says nothing; tokens of the answer.
_USUAL: Final = Drawing(temperature=0.2, top_k=50, top_p=0.8)
_USUAL_TOKENS: Final = 2000


class DialogueIds:
    """A tokenizer, and what stands for speakers and for sound. answers: of what follows."""

    def __init__(self, tokenizer: RankedTokenizer, vocabulary: int) -> None:
        """Raises CheckpointError for a tokenizer of another model."""
        one = tokenizer.special
        self.tokenizer = tokenizer
        self.begin = (one("[gMASK]"), one("<sop>"), one("<|system|>"))
        self.user, self.model = one("<|user|>"), one("<|assistant|>")
        self.sound = (one("<|begin_of_audio|>"), one("<|end_of_audio|>"))
        ends = (one("<|endoftext|>"), self.user, one("<|observation|>"))
        first = one("<|audio_0|>")
        codes = sum(name.startswith("<|audio_") for name in tokenizer.specials)
        if one(f"<|audio_{codes - 1}|>") != first + codes - 1 or first + codes > vocabulary:
            raise CheckpointError(f"codes from {first} on are not {codes} in one piece")
        self.answers = AnswerIds(first, codes, ends)

    def of(self, turns: Sequence[EncodedTurn], instructions: str) -> list[int]:
        """The positions of a conversation, up to where the model answers."""
        spoken = [turn.codes is not None for turn in turns if turn.speaker == USER]
        asks = (_SPOKEN if spoken and spoken[-1] else _WRITTEN) + instructions
        found = [*self.begin, *self.tokenizer.ids(_NEW_LINE + asks)]
        for turn in turns:
            found += self._user(turn) if turn.speaker == USER else self._model(turn)
        return [*found, self.model, *self.tokenizer.ids(_ANSWERS)]

    def _user(self, turn: EncodedTurn) -> list[int]:
        if turn.codes is None:
            return [self.user, *self.tokenizer.ids(_NEW_LINE + turn.text)]
        begin, end = self.sound
        heard = [self.user, *self.tokenizer.ids(_NEW_LINE), begin, *self._codes(turn), end]
        return [*heard, *self.tokenizer.ids(turn.text)]

    def _model(self, turn: EncodedTurn) -> list[int]:
        said = [self.model, *self.tokenizer.ids(_ANSWERS + turn.text)]
        return said if turn.text or turn.codes is None else [*said, *self._codes(turn)]

    def _codes(self, turn: EncodedTurn) -> list[int]:
        assert turn.codes is not None
        return [self.answers.first + int(code) for code in turn.codes[:, 0]]


class GlmPrepared(WholeText):
    """A request whose text is the user's turn, or stands beside one that was said."""

    def __init__(
        self,
        request: SpeechRequest,
        sounds: Sequence[Arrays | None],
        ids: DialogueIds,
        positions: int,
    ) -> None:
        """sounds: what was derived of each turn's. positions: of prompt and answer."""
        self.request, self.drawing = request, _USUAL.with_asked(request.sampling)
        self._most = chosen(request.sampling.max_new_tokens, _USUAL_TOKENS)
        self._turns = [
            EncodedTurn(min(turn.speaker, 1), turn.text, None if sound is None else sound["codes"])
            for turn, sound in zip(request.turns, sounds, strict=True)
        ]
        self._ids, self._positions = ids, positions

    def prompts(self, text: str) -> tuple[IdsPrompt]:
        """The next turn of a conversation begins with all of it."""
        ids = tuple(self._ids.of(self._asked(text), self.request.instructions))
        share = self._positions // _PROMPT_SHARE
        limited(len(ids), share, "what was said takes", "leave out the oldest turns", "turns")
        return (IdsPrompt(ids, min(self._most, self._positions - len(ids)), len(ids)),)

    def _asked(self, text: str) -> list[EncodedTurn]:
        """The turns, the last of which is the user's."""
        *before, last = self._turns or [EncodedTurn(1, "", None)]
        heard = last.speaker == USER and last.codes is not None
        if not heard and not speakable(text):
            raise NothingToSay("nothing was said to the model, and nothing written", param="input")
        if heard:
            return [*before, last._replace(text=f"{last.text} {text}".strip())]
        return [*self._turns, EncodedTurn(USER, text, None)]
