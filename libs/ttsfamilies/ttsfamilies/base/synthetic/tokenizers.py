"""Tokenizers of synthetic checkpoints: few words are single tokens, others pairs and bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.lm.tokenizer import BYTES, divided

# Of Qwen3-TTS, in their published order.
SPECIAL_TOKENS: Final = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>"),
    *("<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"),
    *("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>"),
    *("<think>", "</think>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>"),
    *("<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"),
)
# Llama 3's division of a text into pre-tokens.
_PRE_TOKEN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPACE: Final = "\u0120"
_WORDS: Final = (
    "assistant", "user", f"{_SPACE}the", f"{_SPACE}and", f"{_SPACE}of", f"{_SPACE}to",
    f"{_SPACE}is", f"{_SPACE}world", "Hello", f"{_SPACE}you", "ing", "er", "on", "th",
    "'s", "'re", "ed", f"{_SPACE}a", f"{_SPACE}s", f"{_SPACE}c", "\u010a\u010a",
)  # fmt: skip
# Of tokenizers of pieces, where a word begins with a mark of its own.
BEGINS: Final = "\u2581"
LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_PIECES: Final = ("the", "and", "sing", "world", "say", "is", "ing", "er", "ed", "one", "to")


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


def write_qwen2_tokenizer(
    folder: Path, vocab: dict[str, int], specials: Sequence[str] = SPECIAL_TOKENS
) -> None:
    """vocab.json, merges.txt and tokenizer_config.json. specials: they stand behind all others."""
    write_merges(folder, vocab)
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


def write_llama_tokenizer(folder: Path, added: Mapping[str, int] = MappingProxyType({})) -> None:
    """A Llama's tokenizer.json with a vocabulary for tests, and these control tokens."""
    from tokenizers import Tokenizer, models

    tokenizer = divided(Tokenizer(models.BPE(vocab=vocabulary(), merges=merges())), _PRE_TOKEN)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    found = [{"id": id, "content": name, **flags, "special": True} for name, id in added.items()]
    told = json.loads(tokenizer.to_str()) | ({"added_tokens": found} if found else {})
    dump_json(folder / "tokenizer.json", told)


def words_in_pieces(more: Sequence[str] = ()) -> list[str]:
    """Some words that begin, and the same as parts of others."""
    words = (*_PIECES, *more)
    return [*(f"{BEGINS}{word}" for word in words), *words]


def write_merges(folder: Path, vocab: Mapping[str, int]) -> None:
    """vocab.json and merges.txt, as GPT-2 has them."""
    dump_json(folder / "vocab.json", vocab)
    rules = "".join(f"{left} {right}\n" for left, right in merges())
    (folder / "merges.txt").write_text(f"#version: 0.2\n{rules}", "utf-8")


def write_pieces(folder: Path, known: Sequence[str]) -> None:
    """tokenizer.json of these pieces, of which the first is for what it does not know."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    scored = [(piece, -1.0 - 8.0 * (len(piece) == 1)) for piece in known]
    tokenizer = Tokenizer(models.Unigram(scored, 0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    dump_json(folder / "tokenizer.json", json.loads(tokenizer.to_str()))
