"""A small byte-level BPE tokenizer in the files that published checkpoints have.

The special tokens carry their published names and stand behind the vocabulary, in their published
order. A few words are single tokens, the rest falls into pairs and bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.lm.tokenizer import BYTES
from ttsfamilies.qwen3_tts.synthetic.sizes import SPECIAL_TOKENS

_SPACE: Final = "\u0120"
_WORDS: Final = (
    "assistant", "user", f"{_SPACE}the", f"{_SPACE}and", f"{_SPACE}of", f"{_SPACE}to",
    f"{_SPACE}is", f"{_SPACE}world", "Hello", f"{_SPACE}you", "ing", "er", "on", "th",
    "'s", "'re", "ed", f"{_SPACE}a", f"{_SPACE}s", f"{_SPACE}c", "\u010a\u010a",
)  # fmt: skip


def merges(more: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Rules that build each word from the left. more: words besides the usual ones."""
    found: dict[tuple[str, str], None] = {}
    for word in (*_WORDS, *more):
        for end in range(1, len(word)):
            found[word[:end], word[end]] = None
    return list(found)


def vocabulary(tokens: int = 0, more: Sequence[str] = ()) -> dict[str, int]:
    """Token to id, filled up to `tokens` with names that no text contains. more: see `merges`."""
    names = [
        *sorted(BYTES, key=BYTES.__getitem__),
        *dict.fromkeys(left + right for left, right in merges(more)),
    ]
    names += [f"<unused_{i}>" for i in range(len(names), tokens)]
    return {name: i for i, name in enumerate(names)}


def write_tokenizer(
    folder: Path, vocab: dict[str, int], specials: Sequence[str] = SPECIAL_TOKENS
) -> None:
    """vocab.json, merges.txt and tokenizer_config.json. specials: they stand behind all others."""
    dump_json(folder / "vocab.json", vocab)
    rules = "".join(f"{left} {right}\n" for left, right in merges())
    (folder / "merges.txt").write_text(f"#version: 0.2\n{rules}", "utf-8")
    added = {str(len(vocab) + i): _added(name) for i, name in enumerate(specials)}
    dump_json(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": added,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": 131_072,
            "pad_token": "<|endoftext|>",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )


def _added(name: str) -> dict[str, object]:
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {"content": name, **plain, "special": "think" not in name and "tool" not in name}
