"""Goldens of Fish Audio S2's talker.

The authors' licence covers their code, and what it writes is not distributed. So the goldens that
are checked in are those of a loop of ours on transformers' Qwen3 and Llama, which have the shapes
of both transformers; and whoever has a clone of the authors' repository, which FISH_SPEECH_SOURCE
names, gets goldens of theirs beside the checkpoints. tests/parity/test_fish_s2.py compares both.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaModel, Qwen3Config, Qwen3Model

from tests.parity.fish_s2_cases import CASES, CODES, VOICES, Case
from tests.parity.material import gumbel

AUTHORS = "fish_s2-authors.json"
SLOW, FAST = "text_model.model.", "audio_decoder."
MISSING = (
    "goldens of the loop are written. Those of the authors' code need a clone of their repository:"
    " FISH_SPEECH_SOURCE=/path/to/fish-speech make goldens FAMILY=fish_s2. Their licence allows"
    " research and evaluation; goldens of it are yours alone"
)


class Rounded(torch.nn.Module):
    """A rotary table as the authors have it, in bfloat16."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(table.bfloat16().float() for table in self.inner(x, position_ids))


def halves(weight: torch.Tensor, size: int) -> torch.Tensor:
    """Heads whose neighbouring channels are rotated, as transformers rotates: by halves."""
    order = torch.cat((torch.arange(0, size, 2), torch.arange(1, size, 2)))
    return weight.unflatten(0, (-1, size))[:, order].flatten(0, 1)


def renamed(tensors: dict[str, torch.Tensor], told: dict[str, Any], theirs: str) -> dict[str, Any]:
    """A transformer's weights by transformers' names."""
    size, found = told["head_dim"], {"norm.weight": tensors[f"{theirs}norm.weight"]}
    rows = [told[name] * size for name in ("n_head", "n_local_heads", "n_local_heads")]
    for i in range(told["n_layer"]):
        own, other = f"{theirs}layers.{i}.", f"layers.{i}."
        q, k, v = tensors[f"{own}attention.wqkv.weight"].split(rows)
        for name, part in (("q", halves(q, size)), ("k", halves(k, size)), ("v", v)):
            found[f"{other}self_attn.{name}_proj.weight"] = part
        found[f"{other}self_attn.o_proj.weight"] = tensors[f"{own}attention.wo.weight"]
        for name, part in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
            found[f"{other}mlp.{name}_proj.weight"] = tensors[f"{own}feed_forward.{part}.weight"]
        found[f"{other}input_layernorm.weight"] = tensors[f"{own}attention_norm.weight"]
        found[f"{other}post_attention_layernorm.weight"] = tensors[f"{own}ffn_norm.weight"]
        if told["attention_qk_norm"]:
            for name in ("q_norm", "k_norm"):
                norm = tensors[f"{own}attention.{name}.weight"]
                found[f"{other}self_attn.{name}.weight"] = halves(norm, size)
    return found


def stack(tensors: dict[str, torch.Tensor], told: dict[str, Any], theirs: str) -> Any:
    """transformers' own, with its weights and the rounded table."""
    normed = told["attention_qk_norm"]
    sizes = {
        "vocab_size": 1,
        "hidden_size": told["dim"],
        "intermediate_size": told["intermediate_size"],
        "num_hidden_layers": told["n_layer"],
        "num_attention_heads": told["n_head"],
        "num_key_value_heads": told["n_local_heads"],
        "head_dim": told["head_dim"],
        "rms_norm_eps": told["norm_eps"],
        "rope_parameters": {"rope_type": "default", "rope_theta": float(told["rope_base"])},
        "max_position_embeddings": 32_768,
    }
    model = Qwen3Model(Qwen3Config(**sizes)) if normed else LlamaModel(LlamaConfig(**sizes))
    missing, surplus = model.load_state_dict(renamed(tensors, told, theirs), strict=False)
    assert missing == ["embed_tokens.weight"], missing
    assert not surplus
    model.rotary_emb = Rounded(model.rotary_emb)
    return model.eval()


class Loop:
    """A checkpoint, and how it speaks by the rules of the facts."""

    def __init__(self, folder: Path) -> None:
        self.told = json.loads((folder / "config.json").read_text("utf-8"))
        self.tensors = load_file(folder / "model.safetensors")
        self.slow = stack(self.tensors, self.told["text_config"], SLOW)
        self.fast = stack(self.tensors, self.told["audio_decoder_config"], FAST)
        self.codebooks = self.told["audio_decoder_config"]["num_codebooks"]
        self.first, self.end = self.told["semantic_start_token_id"], self.told["eos_token_id"]
        content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        self.added = {token["content"]: token["id"] for token in content["added_tokens"]}
        self.plain = Tokenizer.from_str(json.dumps(content | {"added_tokens": []}))

    def ids(self, text: str) -> list[int]:
        """Control tokens by their names, and what is between them by the vocabulary."""
        found: list[int] = []
        for part in re.split("|".join(f"({re.escape(name)})" for name in self.added), text):
            if part in self.added:
                found.append(self.added[part])
            elif part:
                found += self.plain.encode(part, add_special_tokens=False).ids
        return found

    def parts(self, *parts: str | np.ndarray[Any, Any]) -> list[list[int]]:
        """Columns [positions, 1 + codebooks]: each text by itself, and frames."""
        found: list[list[int]] = []
        for part in parts:
            if isinstance(part, str):
                found += [[id] + [0] * self.codebooks for id in self.ids(part)]
            else:
                found += [[self.first + int(row[0]), *map(int, row)] for row in part]
        return found

    def embedded(self, columns: list[list[int]]) -> torch.Tensor:
        """[positions, dim]."""
        grid = torch.tensor(columns)
        text = self.tensors[f"{SLOW}embeddings.weight"][grid[:, 0]]
        table = self.tensors[f"{FAST}codebook_embeddings.weight"]
        codes = table[grid[:, 1:] + torch.arange(self.codebooks) * CODES].sum(1)
        frame = (grid[:, 0] >= self.first) & (grid[:, 0] < self.first + CODES)
        whole = (text + codes) / np.float32(np.sqrt(1 + self.codebooks))
        return torch.where(frame[:, None], whole, text)

    def column(self, columns: list[list[int]], case: Case, frame: int, recent: list[int]) -> Any:
        """The next one; of the end, without codes."""
        hidden = self.slow(inputs_embeds=self.embedded(columns)[None]).last_hidden_state[0, -1]
        table = self.tensors[f"{SLOW}embeddings.weight"]
        allowed = torch.cat(
            (table[self.first : self.first + CODES], table[self.end : self.end + 1])
        )
        logits = allowed @ hidden
        code = drawn(logits, case, frame, 0, case.temperature, case.top_p)
        if case.temperature and case.window and code in recent[-case.window :]:
            code = drawn(logits, case, frame, self.codebooks, 1.0, 0.9)
        if code == CODES:
            return [self.end]
        codes, x = [code], hidden[None]
        while len(codes) < self.codebooks:
            x = torch.cat((x, self.tensors[f"{FAST}embeddings.weight"][codes[-1]][None]))
            state = self.fast(inputs_embeds=x[None]).last_hidden_state[0, -1]
            scores = self.tensors[f"{FAST}output.weight"] @ state
            codes.append(drawn(scores, case, frame, len(codes), case.temperature, case.top_p))
        return [self.first + code, *codes]

    def speak(self, case: Case) -> dict[str, Any]:
        """The prompt of each batch, and the frames that follow them."""
        columns = self.parts(*system(case, self.codebooks))
        said: dict[str, Any] = {"prompts": [], "codes": [], "passage": []}
        for number, text in enumerate(turns(case)):
            begin = [] if number == 0 else ["<|im_end|>", "\n"]
            role = ("<|im_start|>", "user\n", text, "<|im_end|>", "\n")
            own = self.parts(*begin, *role, "<|im_start|>", "assistant\n", "<|voice|>")
            said["prompts"].append([*(columns if number == 0 else []), *own])
            columns, recent = [*columns, *own], []
            for made in range(case.frames):
                column = self.column(columns, case, len(said["codes"]), recent)
                if column == [self.end]:
                    break
                recent += [column[1]] if made else []
                columns.append(column)
                said["codes"].append(column[1:])
                said["passage"].append(number)
        return said


def system(case: Case, codebooks: int) -> list[Any]:
    """The turn that has the voice: each part is split into tokens by itself."""
    heard = VOICES[case.voice]
    words = "\n".join(f"<|speaker:{i}|>{one.text}" for i, one in enumerate(heard))
    told = "convert the provided text to speech reference to the following:\n\nText:\n"
    sound = np.concatenate([one.codes(codebooks) for one in heard])
    begin = ("<|im_start|>", "system\n", told, words, "\n\nSpeech:\n", sound)
    return [*begin, "<|im_end|>", "\n"]


def turns(case: Case) -> list[str]:
    """Batches of its speakers' turns, as these cases have them: one, or a turn each."""
    if len(case.text) <= case.chunk_length:
        return [case.text]
    return case.text.split("\n")


def drawn(
    logits: torch.Tensor, case: Case, frame: int, draw: int, temperature: float, top_p: float
) -> int:
    """Of what top-k and top-p leave of logits as they are; the temperature counts behind them."""
    if not case.temperature:
        return int(logits.argmax())
    order = logits.argsort(descending=True)
    shares = logits[order].softmax(0).cumsum(0)
    out = shares > top_p
    out[case.top_k or len(out) :] = True
    out[0] = False
    left = logits.clone()
    left[order[out]] = -torch.inf
    noise = torch.from_numpy(gumbel(case.seed, frame, draw, CODES + 1))[: len(logits)]
    return int((left / temperature + noise).argmax())


@cache
def loop_of(folder: Path) -> Loop:
    return Loop(folder)


def authors(checkpoints: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Frames of the greedy cases of one batch by the authors' code; needs their repository."""
    source = os.environ.get("FISH_SPEECH_SOURCE", "")
    if not (Path(source) / "fish_speech").is_dir():
        raise SystemExit(MISSING)
    sys.path.insert(0, source)
    from fish_speech.models.text2semantic.inference import decode_one_token_ar, generate
    from fish_speech.models.text2semantic.llama import DualARModelArgs, DualARTransformer

    said = {}
    for case in CASES:
        prompts = found[case.name]["prompts"]
        if case.temperature or len(prompts) > 1:
            continue
        loop = loop_of(checkpoints / case.checkpoint)
        model = _theirs(loop, DualARModelArgs, DualARTransformer)
        with torch.inference_mode():
            model.setup_caches(1, 1024, torch.float32)
            columns = generate(
                model=model,
                prompt=torch.tensor(prompts[0]).T,
                max_new_tokens=case.frames + 1,
                audio_masks=None,
                audio_parts=None,
                decode_one_token=decode_one_token_ar,
                temperature=1.0,
                top_p=0.8,
                top_k=1,
            )
        said[case.name] = columns[1:, len(prompts[0]) :].T[: case.frames].tolist()
    return said


def _theirs(loop: Loop, args: Any, transformer: Any) -> Any:
    """Their class, of the checkpoint's sizes and weights."""
    slow, fast = loop.told["text_config"], loop.told["audio_decoder_config"]

    class Ids:
        def get_token_id(self, name: str) -> int:
            return int(loop.added.get(name, loop.first))

    sizes = {name: slow[name] for name in ("dim", "n_layer", "n_head", "n_local_heads", "head_dim")}
    sizes |= {f"fast_{name}": fast[name] for name in sizes if name != "n_layer"}
    told = args(
        **sizes,
        vocab_size=slow["vocab_size"],
        intermediate_size=slow["intermediate_size"],
        fast_intermediate_size=fast["intermediate_size"],
        n_fast_layer=fast["n_layer"],
        codebook_size=CODES,
        num_codebooks=loop.codebooks,
        rope_base=slow["rope_base"],
        norm_eps=slow["norm_eps"],
        max_seq_len=1024,
        tie_word_embeddings=True,
        attention_qk_norm=True,
        fast_attention_qk_norm=False,
        scale_codebook_embeddings=True,
        norm_fastlayer_input=True,
        semantic_begin_id=loop.first,
        semantic_end_id=loop.first + CODES - 1,
    )
    model = transformer(told, tokenizer=Ids())
    own = {}
    for name, tensor in loop.tensors.items():
        if name.startswith(SLOW):
            own[name.removeprefix(SLOW)] = tensor
        elif name == f"{FAST}codebook_embeddings.weight":
            own["codebook_embeddings.weight"] = tensor
        else:
            own[f"fast_{name.removeprefix(FAST)}"] = tensor
    model.load_state_dict(own, strict=False)
    return model.eval()


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    with torch.inference_mode():
        found = {case.name: loop_of(checkpoints / case.checkpoint).speak(case) for case in CASES}
    (goldens / "fish_s2.json").write_text(json.dumps(found) + "\n", "utf-8")
    print({name: len(case["codes"]) for name, case in found.items()})
    said = authors(checkpoints, found)
    (checkpoints.parent / AUTHORS).write_text(json.dumps(said) + "\n", "utf-8")
