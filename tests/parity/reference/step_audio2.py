"""Goldens of Step-Audio 2's language model and of what hears for it.

transformers' Qwen2 with its own penalty, temperature and top-p, and transformers' encoder of
Qwen2-Audio, which has the same layers, pool and norm. The adaptor behind it is in no package; it is
written here as the authors' file has it. What is drawn takes the goldens' noise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor
from torch.nn import functional
from transformers import Qwen2AudioEncoderConfig, Qwen2Config, Qwen2ForCausalLM
from transformers.audio_utils import mel_filter_bank
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
from transformers.models.qwen2_audio.modeling_qwen2_audio import Qwen2AudioEncoder

from tests.parity.material import gumbel
from tests.parity.reference.draws import keyed_noise
from tests.parity.step_audio2_cases import CASES, RATE, ROW_STRIDE, Case, Said, sound

SEGMENT = 25 * RATE
_LAYER = {
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.out": "self_attn.out_proj",
    "attn_ln": "self_attn_layer_norm",
    "mlp.0": "fc1",
    "mlp.2": "fc2",
    "mlp_ln": "final_layer_norm",
}


def log_mel(samples: Tensor) -> Tensor:
    """[128, frames] of a segment, behind which stands 30 ms of silence."""
    filters = mel_filter_bank(201, 128, 0.0, 8000.0, RATE, "slaney", "slaney")
    padded = functional.pad(samples, (0, 479))
    window = torch.hann_window(400)
    spectrum = torch.stft(padded, 400, 160, window=window, return_complex=True)
    power = spectrum[..., :-1].abs() ** 2
    mel = torch.from_numpy(filters.T.copy()).float() @ power
    mel = mel.clamp(min=1e-10).log10()
    return (torch.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0


def encoder(tensors: dict[str, Tensor], config: dict[str, Any], states: int) -> Any:
    """Of so many states: the package wants all of its positions to be filled."""
    told = Qwen2AudioEncoderConfig(
        num_mel_bins=config["n_mels"],
        d_model=config["n_audio_state"],
        encoder_layers=config["n_audio_layer"],
        encoder_attention_heads=config["n_audio_head"],
        encoder_ffn_dim=4 * config["n_audio_state"],
        max_source_positions=states,
        attn_implementation="eager",
    )
    net = Qwen2AudioEncoder(told).eval()
    found = {}
    for name, tensor in tensors.items():
        head, _, rest = name.removeprefix("encoder.").partition(".")
        if not name.startswith("encoder."):
            continue
        if head == "blocks":
            layer, _, part = rest.partition(".")
            module, _, kind = part.rpartition(".")
            found[f"layers.{layer}.{_LAYER[module]}.{kind}"] = tensor
        elif head == "positional_embedding":
            found["embed_positions.weight"] = tensor[:states]
        else:
            found[f"{head.replace('after_norm', 'layer_norm')}.{rest}"] = tensor
    net.load_state_dict(found, strict=True)
    return net


def heard(tensors: dict[str, Tensor], config: dict[str, Any], samples: Tensor) -> Tensor:
    """Rows of a segment: the last state before the pool is seen by none."""
    mel = log_mel(samples)
    frames = mel.shape[1]
    states = (frames + 1) // 2
    net = encoder(tensors, config, states)
    vars(net.config)["max_source_positions"] = frames / 2  # what it checks; half a state is its own
    length = frames - 2
    shown = (torch.arange(frames) < length)[(frames + 1) % 2 :: 2]
    mask = torch.where(shown, 0.0, -1e10).expand(1, 1, states, states)
    x = net(mel[None], attention_mask=mask).last_hidden_state
    x = functional.conv1d(
        x.mT, tensors["adapter.conv.weight"], tensors["adapter.conv.bias"], stride=2, padding=1
    )
    x = functional.gelu(x).mT
    x = functional.relu(
        functional.linear(x, tensors["adapter.linear1.weight"], tensors["adapter.linear1.bias"])
    )
    x = functional.linear(x, tensors["adapter.linear2.weight"], tensors["adapter.linear2.bias"])
    pooled = (length + 1) // 2 // 2
    return x[0, : (pooled - 1) // 2 + 1]


class Talk:
    """A checkpoint's tokenizer, control ids and networks."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
        lines = (folder / "merges.txt").read_text("utf-8").splitlines()[1:]
        told = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        added = told["added_tokens_decoder"]
        self.special = {token["content"]: int(i) for i, token in added.items()}
        merges = [tuple(line.split(" ")) for line in lines]
        self._tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        self._tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")
        bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytewise])
        self.hearing = config["audio_encoder_config"]
        self.tensors = load_file(folder / "model.safetensors")
        text = {k: v for k, v in config["text_config"].items() if k != "num_attention_groups"}
        own = ("model.", "lm_head.")
        self.net = Qwen2ForCausalLM(Qwen2Config(**text, tie_word_embeddings=False)).eval()
        mine = {n: t for n, t in self.tensors.items() if n.startswith(own)}
        self.net.load_state_dict(mine, strict=True)

    def ids(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def turn(self, role: str, text: str) -> list[int]:
        begin, end = self.special["<|BOT|>"], self.special["<|EOT|>"]
        return [begin, *self.ids(f"{role}\n{text}"), end]

    def said(self, turn: Said, rows: list[Tensor]) -> list[int]:
        """Ids of a turn; the rows of its sound are added to `rows`."""
        if not turn.seconds:
            return self.turn("human" if turn.human else "assistant", turn.text)
        found = [self.special["<|BOT|>"], *self.ids("human\n")]
        for part in torch.from_numpy(sound(turn.seconds)).split(SEGMENT):
            rows.append(heard(self.tensors, self.hearing, part))
            patches = [self.special["<audio_patch>"]] * len(rows[-1])
            found += [self.special["<audio_start>"], *patches, self.special["<audio_end>"]]
        return [*found, *self.ids(turn.text), self.special["<|EOT|>"]]

    def prompt(self, case: Case) -> tuple[list[int], list[Tensor]]:
        rows: list[Tensor] = []
        ids = self.turn("system", case.how or "You are a helpful assistant.")
        turns = list(case.said)
        if case.text and turns and turns[-1].seconds:
            turns[-1] = turns[-1]._replace(text=case.text)
        elif case.text:
            turns.append(Said(True, case.text))
        for turn in turns:
            ids += self.said(turn, rows)
        ids += [self.special["<|BOT|>"], *self.ids("assistant\n"), self.special["<tts_start>"]]
        return ids, rows


def generated(talk: Talk, case: Case) -> dict[str, Any]:
    """The prompt, the ids that follow it, and some numbers of what was heard."""
    ids, rows = talk.prompt(case)
    asked = torch.tensor([ids])
    embedded = talk.net.model.embed_tokens(asked).clone()
    if rows:
        embedded[asked == talk.special["<audio_patch>"]] = torch.cat(rows)
    drawing: dict[str, Any] = {"do_sample": False}
    if not case.greedy:
        told = {"temperature": case.sampling["temperature"], "top_p": case.sampling["top_p"]}
        drawing = {"do_sample": True, **told, "top_k": 0}
    first = talk.special["<audio_0>"]
    ends = [talk.special[name] for name in ("<|EOT|>", "<tts_end>", "<|endoftext|>", "<|im_end|>")]
    with keyed_noise(lambda step, count: gumbel(case.seed, step, 0, count)):
        found = talk.net.generate(
            input_ids=asked,
            inputs_embeds=embedded,
            attention_mask=torch.ones_like(asked),
            repetition_penalty=case.sampling["penalty"],
            max_new_tokens=case.tokens,
            eos_token_id=ends,
            pad_token_id=ends[0],
            **drawing,
        )[0].tolist()
    drawn = found[len(ids) :] if found[: len(ids)] == ids else found
    stop = next((i for i, id in enumerate(drawn) if id in ends), len(drawn))
    return {
        "prompt": ids,
        "ids": drawn[:stop],
        "ended": stop < len(drawn),
        "first": first,
        "rows": [round(float(v), 6) for part in rows for v in part.flatten()[:: ROW_STRIDE * 32]],
    }


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    talks = {name: Talk(checkpoints / name) for name in {case.checkpoint for case in CASES}}
    with torch.inference_mode():
        found = {case.name: generated(talks[case.checkpoint], case) for case in CASES}
    (goldens / "step_audio2.json").write_text(json.dumps(found) + "\n", "utf-8")
    for name, case in found.items():
        speech = sum(i >= case["first"] for i in case["ids"])
        print(name, len(case["prompt"]), len(case["ids"]), speech, case["ended"])
    print(np.mean([len(case["ids"]) for case in found.values()]))
