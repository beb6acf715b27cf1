"""A CosyVoice checkpoint's sizes, and the ids that its versions share or differ in. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import head_problems, size_problems
from ttsfamilies.base.lm.llama import LlamaSizes

# Where sizes and tokenizer are published: a Qwen2 of which all weights but these were replaced.
BACKBONE: Final = "CosyVoice-BlankEN"
# Of S3 tokens; ids from here on end a stretch of speech.
TOKENS: Final = 6561
# Behind an instruction, or a system prompt: the first token that the text's own tokenizer lacks.
END_OF_PROMPT: Final = 151_646
# A text that is streamed: so many of its tokens, then so many of speech, in turn.
BLOCK_TEXT, BLOCK_SPEECH = 5, 15


@dataclass(frozen=True)
class BackboneSizes(LlamaSizes):
    """config.json of the backbone."""

    model_type: str = "qwen2"


@dataclass(frozen=True)
class SpeechRows:
    """A version of the speech table.

    count: rows. fill: the id with which the model asks for more text. start, task: rows of their
    own table, or of this one. system: what stands before an instruction or a transcript.
    """

    version: int
    count: int
    fill: int
    start: int
    task: int
    own_table: bool
    system: str = ""

    @property
    def highest_hz(self) -> float:
        """Of the mel frames that its flow begins with."""
        return 8_000.0 if self.version == 2 else 12_000.0


V2: Final = SpeechRows(2, TOKENS + 3, TOKENS + 2, 0, 1, own_table=True)
V3: Final = SpeechRows(
    3,
    TOKENS + 200,
    TOKENS + 3,
    TOKENS,
    TOKENS + 2,
    own_table=False,
    system="You are a helpful assistant.",
)


def load_sizes(folder: Path) -> BackboneSizes:
    """Read and check the backbone's config.json; raises CheckpointError."""
    path = folder / BACKBONE / "config.json"
    sizes = read_json(path, BackboneSizes)
    heads = head_problems(sizes.num_attention_heads, sizes.num_key_value_heads, sizes.head_size)
    problems = [*sizes.problems(), *size_problems(sizes), *heads]
    if sizes.model_type != "qwen2" or sizes.vocab_size <= END_OF_PROMPT:
        problems.append(f"a {sizes.model_type} with {sizes.vocab_size} ids ends no prompt")
    for wrong in problems:
        raise CheckpointError(f"{path}: {wrong}")
    return sizes
