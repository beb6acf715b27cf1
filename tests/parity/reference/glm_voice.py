"""Goldens of GLM-4-Voice.

The language model is transformers' GLM, with its own temperature, top-k and top-p; draws take the
goldens' noise, and tiktoken reads the prompts. What hears, flow and vocoder are the authors'
modules as vox-serve packs them; the prompt of a block and the seams between blocks, which it leaves
out, are put together here as in the authors' `flow.py` and `flow_inference.py` (github,
THUDM/GLM-4-Voice, 8a5e8f5a4d95a45b1e725bb686920c0be4e17f41).
"""

from __future__ import annotations

import base64
import importlib.metadata
import importlib.util
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import tiktoken
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import GlmConfig, GlmForCausalLM, WhisperFeatureExtractor

from tests.parity.glm_voice_cases import CASES, HEARD, RATE, STRIDE, Case, Said, codes, spoken
from tests.parity.material import gumbel
from tests.parity.reference.draws import keyed_noise

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ASKS = (
    "User will provide you with a {} instruction. Do it step by step. First, think about the"
    " instruction and respond in a interleaved manner, with 13 text token followed by 26 audio"
    " tokens."
)
HELD, HOP = 34, 256


def tokenizer(folder: Path) -> tiktoken.Encoding:
    lines = (folder / "tokenizer.model").read_text("utf-8").splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    added = {one["content"]: int(i) for i, one in config["added_tokens_decoder"].items()}
    return tiktoken.Encoding("glm", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=added)


def sounded(heard: list[int]) -> str:
    return "".join(f"<|audio_{one}|>" for one in heard)


def prompt(folder: Path, case: Case) -> list[int]:
    """The demo's string, and GLM-4's two tokens in front."""

    def user(turn: Said) -> str:
        if not turn.seconds:
            return f"<|user|>\n{turn.text}"
        heard = sounded(hear(folder, turn.seconds))
        return f"<|user|>\n<|begin_of_audio|>{heard}<|end_of_audio|>{turn.text}"

    def model(turn: Said) -> str:
        return f"<|assistant|>streaming_transcription\n{turn.text}"

    turns = list(case.turns)
    if turns and turns[-1].seconds:
        turns[-1] = Said(0, case.text, turns[-1].seconds)
    else:
        turns.append(Said(0, case.text))
    asks = ASKS.format("speech") + " " if turns[-1].seconds else ASKS.format("text")
    said = "".join(model(turn) if turn.speaker else user(turn) for turn in turns)
    whole = f"[gMASK]<sop><|system|>\n{asks}{said}<|assistant|>streaming_transcription\n"
    return tokenizer(folder).encode(whole, allowed_special="all")


def language_model(folder: Path) -> GlmForCausalLM:
    """Fused products of the hub's file, divided."""
    told = json.loads((folder / "config.json").read_text("utf-8"))
    heads, groups, size = (
        told[name] for name in ("num_attention_heads", "multi_query_group_num", "kv_channels")
    )
    config = GlmConfig(
        vocab_size=told["padded_vocab_size"],
        hidden_size=told["hidden_size"],
        intermediate_size=told["ffn_hidden_size"],
        num_hidden_layers=told["num_layers"],
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=size,
        rms_norm_eps=told["layernorm_epsilon"],
        attention_bias=True,
        tie_word_embeddings=False,
        max_position_embeddings=told["seq_length"],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.5,
        },
        pad_token_id=0,
    )
    model = GlmForCausalLM(config).eval()
    theirs = load_file(folder / "model.safetensors")
    found = {
        "model.embed_tokens.weight": theirs["transformer.embedding.word_embeddings.weight"],
        "model.norm.weight": theirs["transformer.encoder.final_layernorm.weight"],
        "lm_head.weight": theirs["transformer.output_layer.weight"],
    }
    shares = [heads * size, groups * size, groups * size]
    for i in range(told["num_layers"]):
        ours, layer = f"model.layers.{i}.", f"transformer.encoder.layers.{i}."
        for part in ("weight", "bias"):
            fused = theirs[f"{layer}self_attention.query_key_value.{part}"].split(shares)
            for name, one in zip("qkv", fused, strict=True):
                found[f"{ours}self_attn.{name}_proj.{part}"] = one
        for own, name in (
            ("self_attn.o_proj", "self_attention.dense"),
            ("mlp.gate_up_proj", "mlp.dense_h_to_4h"),
            ("mlp.down_proj", "mlp.dense_4h_to_h"),
            ("input_layernorm", "input_layernorm"),
            ("post_attention_layernorm", "post_attention_layernorm"),
        ):
            found[f"{ours}{own}.weight"] = theirs[f"{layer}{name}.weight"]
    model.load_state_dict(found, strict=True)
    return model


def answered(folder: Path, case: Case) -> dict[str, list[int]]:
    """The prompt, and the ids that follow it."""
    ids, model = prompt(folder, case), language_model(folder)
    named = tokenizer(folder).encode_single_token
    ends = [named(name) for name in ("<|endoftext|>", "<|user|>", "<|observation|>")]
    drawing: dict[str, Any] = {"do_sample": False}
    if case.temperature:
        drawing = {"do_sample": True, "temperature": case.temperature}
        drawing |= {"top_k": case.top_k, "top_p": case.top_p}

    def noise(step: int, count: int) -> Any:
        return gumbel(case.seed, step, 0, count)

    with keyed_noise(noise), torch.inference_mode():
        found = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=case.tokens,
            eos_token_id=ends,
            pad_token_id=ends[0],
            **drawing,
        )
    return {"prompt": ids, "ids": found[0, len(ids) :].tolist()}


def hear(folder: Path, seconds: float) -> list[int]:
    """Ids of a turn."""
    told = json.loads((folder / "glm-4-voice-tokenizer" / "config.json").read_text("utf-8"))
    known = load_file(folder / "glm-4-voice-tokenizer" / "model.safetensors")
    a = packed("encoder/glm.py")
    names = set(a.GLMEncoderConfig.__dataclass_fields__)
    net = a.GLMWhisperVQEncoder(a.GLMEncoderConfig(**{n: told[n] for n in told if n in names}))
    missing = set(net.load_state_dict(known, strict=False).missing_keys)
    assert missing == {"embed_positions2.weight", "ema_count", "ema_weight"}, missing
    masked = net.get_block_causal_attention_mask  # of bfloat16, as is all that it was written for
    net.get_block_causal_attention_mask = lambda *given, **named: masked(*given, **named).float()
    extract = WhisperFeatureExtractor(feature_size=128)
    made = extract(
        spoken(seconds),
        sampling_rate=RATE,
        return_attention_mask=True,
        return_tensors="pt",
        padding="longest",
        pad_to_multiple_of=told["pooling_kernel_size"] * 2 * extract.hop_length,
    )
    with torch.inference_mode():
        found = net.eval()(made.input_features, made.attention_mask)[0]
    ids: list[int] = found[
        made.attention_mask[0, :: 2 * told["pooling_kernel_size"]].bool()
    ].tolist()
    return ids


def packed(name: str) -> ModuleType:
    """A file of vox-serve with the authors' modules; its package would want a GPU."""
    files = importlib.metadata.files("vox-serve") or ()
    (path,) = (f for f in files if f.match(name))
    folder = name.partition("/")[0]
    for stub in ("packed", f"packed.{folder}", "packed.utils"):
        sys.modules.setdefault(stub, ModuleType(stub))
    sys.modules["packed.utils"].__dict__.update(
        get_logger=logging.getLogger, load_hf_safetensor_state_dict=None
    )
    spec = importlib.util.spec_from_file_location(f"packed.{folder}.glm", path.locate())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Decoder:
    """Flow and vocoder, in float64 but for their draws."""

    def __init__(self, folder: Path) -> None:
        a = packed("tokenizer/glm.py")
        known = {n: t.double() for n, t in load_file(folder / "model.safetensors").items()}
        width, mels = 32, 80
        encoder = a.BlockConformerEncoder(width, width, 2, 48, 2, block_size=10)
        net = a.ConditionalDecoder(
            in_channels=4 * mels,
            out_channels=mels,
            channels=(width, width),
            attention_head_dim=64,
            n_blocks=1,
            num_mid_blocks=1,
            num_heads=1,
        )
        params = a.CFMParams()
        cfm = a.ConditionalCFM(3 * mels, params, 1, mels, net)
        self.flow = a.GLMFlowModel(
            width,
            mels,
            vocab_size=len(known["input_embedding.weight"]),
            encoder=encoder,
            length_regulator=a.InterpolateRegulator(),
            decoder=cfm,
        )
        predictor = a.ConvRNNF0Predictor(cond_channels=16)
        self.hift = a.GLMHiFTModel(base_channels=16, f0_predictor=predictor)
        for net, fits in ((self.flow, False), (self.hift, True)):
            net.double().eval()
            mine = {n: t for n, t in known.items() if _vocoders(n) is fits}
            net.load_state_dict(_as(net, mine), strict=True)

    def mel(self, ids: Tensor, prompt: Tensor, prompt_mel: Tensor) -> Tensor:
        """A block's [1, mels, frames] behind its prompt's ids [1, n] and mel [1, mels, frames]."""
        whole, flow = torch.cat((prompt, ids), 1), self.flow
        speaker = nn.functional.normalize(torch.zeros(1, 192, dtype=torch.float64), dim=1)
        speaker = flow.spk_embed_affine_layer(speaker)
        length = torch.tensor([whole.shape[1]], dtype=torch.int32)
        h = flow.encoder(flow.input_embedding(whole), length)
        frames = (length.float() / 12.5 * 22050 / 256).int()
        flow.length_regulator.ylens = None  # the package keeps the first one
        h, _ = flow.length_regulator(flow.encoder_proj(h), frames)
        cond = torch.zeros_like(h).mT.contiguous()
        cond[:, :, : prompt_mel.shape[2]] = prompt_mel
        torch.manual_seed(42)  # in each call of the authors'; the package does it once
        found = flow.decoder(h.mT.contiguous(), 10, spks=speaker, cond=cond)
        return found[:, :, prompt_mel.shape[2] :]

    def stream(self, ids: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor]:
        """Mel and samples of an answer, block by block."""
        window = torch.from_numpy(np.hamming(2 * HELD))
        done, mels, sounds, at = torch.zeros(1, 80, 0).double(), [], [], 0
        held = frame = source = None
        for i, size in enumerate(sizes):
            last = i == len(sizes) - 1
            mel = self.mel(ids[:, at : at + size], ids[:, :at], done)
            at += size
            if held is not None:
                mel[..., :HELD] = mel[..., :HELD] * window[:HELD] + held * window[HELD:]
            if not last:
                mel, held = mel[..., :-HELD], mel[..., -HELD:]
            shown = mel if frame is None else torch.cat((frame, mel), 2)
            known = torch.zeros(1, 1, 0).double() if source is None else source
            sound, made = self.hift(shown, known)
            frame, source = mel[..., -1:], made[..., -HOP:]
            sounds.append(sound if last else sound[:, :-HOP])
            mels.append(mel)
            done = torch.cat(mels, 2)
        return done[0], torch.cat(sounds, 1)[0]


def _vocoders(name: str) -> bool:
    first = name.partition(".")[0]
    own = ("f0_predictor", "m_source", "conv_pre", "conv_post", "ups", "resblocks")
    return first in own or first.startswith("source_")


def _as(net: nn.Module, known: dict[str, Tensor]) -> dict[str, Tensor]:
    """Lengths and directions of weights by the names that this torch has for them."""
    pairs = ("parametrizations.weight.original0", "parametrizations.weight.original1")
    olds, found = ("weight_g", "weight_v"), {}
    wanted = net.state_dict().keys()
    for name, tensor in known.items():
        if name not in wanted:
            for pair, old in zip(pairs, olds, strict=True):
                name = name.replace(pair, old)
        found[name] = tensor
    return found


@contextmanager
def narrow_draws() -> Iterator[None]:
    """Draws are float32, as they are where the models are."""

    def randn_like(x: Tensor) -> Tensor:
        return torch.randn(x.shape, dtype=torch.float32).to(x.dtype)

    def sample(self: Any, sample_shape: Any = ()) -> Tensor:
        drawn = torch.rand(sample_shape, dtype=torch.float32).double()
        return self.low + drawn * (self.high - self.low)

    uniform = torch.distributions.uniform.Uniform
    with patch.object(torch, "randn_like", randn_like), patch.object(uniform, "sample", sample):
        yield


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    folder = checkpoints / CASES[0].checkpoint
    found: dict[str, Any] = {c.name: answered(checkpoints / c.checkpoint, c) for c in CASES}
    found |= {f"{seconds:g} s": hear(folder, seconds) for seconds in HEARD}
    (goldens / "glm_voice.json").write_text(json.dumps(found) + "\n", "utf-8")
    print({name: len(one["ids"] if isinstance(one, dict) else one) for name, one in found.items()})
    torch.set_default_dtype(torch.float64)
    ids = torch.from_numpy(codes().astype(np.int64))[None]
    with torch.inference_mode(), narrow_draws():
        mel, samples = Decoder(checkpoints / "glm-codec").stream(ids, [25, 50, 15])
    print(mel.shape, samples.shape, float(samples.std()))
    np.savez_compressed(
        goldens / "glm_voice.npz",
        mel=mel[:, ::8].float().numpy(),
        samples=samples[::STRIDE].float().numpy(),
        counts=np.array([mel.shape[1], len(samples)]),
    )
