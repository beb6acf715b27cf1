"""Goldens of the flow of S3 tokens and HiFT, in float64.

CosyVoice 2's own code, as `cosyvoice2-eu` bundles it, and Chatterbox's package, each with small
widths and the weights of a synthetic codec. Their noise is replaced by the cases'.

Fun-CosyVoice 3's flow and HiFT are in no package: COSYVOICE_SOURCE names a clone of github
FunAudioLLM/CosyVoice, and without one its goldens stay as they are. They were made with the
inference part of these files, as it stands at commits of that repository; the solver is the
package's.

    0c50894d49733f163ce1f7d6  cosyvoice/flow/DiT/dit.py, cosyvoice/transformer/convolution.py
    f88a14e41d53c9a358b70a0d  cosyvoice/flow/DiT/modules.py
    4d7295a9a7076b7b656f63c3  cosyvoice/flow/flow.py
    927addadd8618ca81f542f65  cosyvoice/hifigan/generator.py, cosyvoice/hifigan/f0_predictor.py
    not known                 cosyvoice/transformer/upsample_encoder.py, its PreLookaheadLayer
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file

from tests.parity import s3_cases as cases
from tests.parity.reference.bare import bare, quiet

CFM = {
    "sigma_min": 1e-06,
    "solver": "euler",
    "t_scheduler": "cosine",
    "training_cfg_rate": 0.2,
    "inference_cfg_rate": 0.7,
    "reg_loss_type": "l1",
}
ENCODER = {
    "output_size": 64,
    "attention_heads": 2,
    "linear_units": 96,
    "num_blocks": 2,
    "input_size": 64,
    "normalize_before": True,
    "input_layer": "linear",
    "pos_enc_layer_type": "rel_pos_espnet",
    "selfattention_layer_type": "rel_selfattn",
    "use_cnn_module": False,
    "macaron_style": False,
}
UNET = {
    "in_channels": 320,
    "out_channels": 80,
    "channels": [32],
    "dropout": 0.0,
    "attention_head_dim": 64,
    "n_blocks": 1,
    "num_mid_blocks": 2,
    "num_heads": 1,
    "act_fn": "gelu",
}
HIFT = {
    "base_channels": 16,
    "sampling_rate": 24000,
    "upsample_rates": [8, 5, 3],
    "upsample_kernel_sizes": [16, 11, 7],
    "source_resblock_kernel_sizes": [7, 7, 11],
    "source_resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
}
PITCH_WIDTH = 16
DIT = {
    "dim": 64,
    "depth": 2,
    "heads": 2,
    "dim_head": 64,
    "ff_mult": 1.5,
    "mel_dim": 80,
    "mu_dim": 80,
    "spk_dim": 80,
    "out_channels": 80,
    "static_chunk_size": 50,
}
# A buffer that the reference makes itself.
ROTARY = "decoder.estimator.rotary_embed.inv_freq"


def write(checkpoints: Path, goldens: Path) -> None:
    """Every kind with and without the streaming mask: mel, pitch, samples."""
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    found: dict[str, Any] = {}
    for kind in cases.KINDS:
        if kind == "cosyvoice3" and "COSYVOICE_SOURCE" not in os.environ:
            found |= kept(goldens, kind)
            continue
        tensors = {n: t.double() for n, t in load_one(checkpoints / cases.NAME / kind).items()}
        make = MAKERS.get(kind, chatterbox)
        for grid in cases.GRIDS:
            mel, pitch, samples = make(tensors, kind, grid)
            name = f"{kind}/{grid}"
            found[f"{name}/mel"] = mel[:, :: cases.MEL_STRIDE].astype(np.float32)
            found[f"{name}/pitch"] = pitch
            found[f"{name}/samples"] = samples[:: cases.STRIDE].astype(np.float32)
            print(name, mel.shape, samples.shape, mel.std(), pitch.mean(), samples.std())
    np.savez_compressed(goldens / f"{cases.NAME}.npz", **found)


def kept(goldens: Path, kind: str) -> dict[str, Any]:
    """Goldens that cannot be made anew here."""
    print(f"{kind}: COSYVOICE_SOURCE names no clone, its goldens stay as they are")
    with np.load(goldens / f"{cases.NAME}.npz") as file:
        return {name: file[name] for name in file if name.startswith(f"{kind}/")}


def load_one(folder: Path) -> dict[str, torch.Tensor]:
    (path,) = folder.glob("*.safetensors")
    return load_file(path)


def loaded(module: torch.nn.Module, tensors: dict[str, torch.Tensor], *begins: str) -> None:
    mine = {n: t for n, t in tensors.items() if n.startswith(begins)}
    if len(begins) == 1:
        mine = {n.removeprefix(begins[0]): t for n, t in mine.items()}
    told = module.load_state_dict(mine, strict=False)
    assert not told.unexpected_keys, told.unexpected_keys
    assert not set(told.missing_keys) - {ROTARY}, told.missing_keys
    module.double().eval()


def given(dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Arguments of `inference` that both packages have."""
    said = cases.recording()
    token, prompt = (
        torch.from_numpy(x.astype(np.int64))[None] for x in (cases.tokens(), said["token"])
    )
    return {
        "token": token,
        "token_len": torch.tensor([token.shape[1]]),
        "prompt_token": prompt,
        "prompt_token_len": torch.tensor([prompt.shape[1]]),
        "prompt_feat": torch.from_numpy(said["mel"])[None].to(dtype),
        "prompt_feat_len": torch.tensor([len(said["mel"])]),
        "embedding": torch.from_numpy(said["speaker"]).to(dtype),
        "finalize": True,
    }


@contextmanager
def drawing(noise: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """`randn_like` gives the cases' noise."""
    with patch.object(torch, "randn_like", lambda x, **_: noise(x)):
        yield


def sound(hift: Any, mel: torch.Tensor, *, last: bool) -> tuple[Any, Any]:
    """Pitch and samples. last: harmonics are the last dimension."""
    noise = torch.from_numpy(cases.source_noise())
    with torch.inference_mode():
        pitch = hift.f0_predictor(mel)[0].numpy()
        with drawing(lambda x: _shaped(noise, x, last=last)):
            samples, _ = hift.inference(speech_feat=mel)
    return pitch, samples[0].numpy()


def _shaped(noise: torch.Tensor, like: torch.Tensor, *, last: bool) -> torch.Tensor:
    if cases.HARMONICS not in like.shape:
        return torch.zeros_like(like)  # of a branch that nothing hears
    return noise.T[None, : like.shape[1]] if last else noise[None, :, : like.shape[2]]


def cosyvoice(tensors: dict[str, torch.Tensor], kind: str, grid: int) -> tuple[Any, Any, Any]:
    flow, hift = cosyvoice_networks(tensors)
    mel, _ = flow.inference(**given(), streaming=bool(grid))
    return mel[0].numpy(), *sound(hift, mel, last=True)


def cosyvoice_networks(tensors: dict[str, torch.Tensor]) -> tuple[Any, Any]:
    """CosyVoice 2's flow and HiFT, in float64."""
    bare("cosyvoice", "cosyvoice.cli", "cosyvoice.llm", "matcha", "matcha.utils")
    quiet("matcha.utils.pylogger", get_pylogger=lambda *_: None)
    quiet("cosyvoice.utils.class_utils", **cosyvoice_classes())
    from cosyvoice.flow import decoder as net
    from cosyvoice.flow.flow import CausalMaskedDiffWithXvec
    from cosyvoice.flow.flow_matching import CausalConditionalCFM
    from cosyvoice.hifigan.f0_predictor import ConvRNNF0Predictor
    from cosyvoice.hifigan.generator import HiFTGenerator
    from cosyvoice.transformer import upsample_encoder as up
    from omegaconf import DictConfig

    usual = torch.get_default_dtype()
    net.mask_to_bias = lambda mask, dtype: (1.0 - mask.to(dtype)) * -1.0e10
    encoder = up.UpsampleConformerEncoder(**ENCODER, static_chunk_size=25)
    encoder.pre_lookahead_layer = up.PreLookaheadLayer(channels=64, pre_lookahead_len=3)
    encoder.up_layer = up.Upsample1D(channels=64, out_channels=64, stride=2)
    estimator = net.CausalConditionalDecoder(**UNET, static_chunk_size=50)
    torch.set_default_dtype(torch.float32)  # its table of noise is one of float32
    cfm = CausalConditionalCFM(240, DictConfig(CFM), 1, 80, estimator)
    torch.set_default_dtype(usual)
    flow = CausalMaskedDiffWithXvec(
        64, encoder=encoder, decoder=cfm, vocab_size=6561, input_frame_rate=25
    )
    loaded(flow, tensors, "input_embedding", "spk_embed", "encoder", "decoder.")
    hift = HiFTGenerator(**HIFT, f0_predictor=ConvRNNF0Predictor(cond_channels=PITCH_WIDTH))
    loaded(hift, tensors, "f0_pred", "m_source", "conv_p", "ups", "source_", "resblocks")
    return flow, hift


def cosyvoice3(tensors: dict[str, torch.Tensor], kind: str, grid: int) -> tuple[Any, Any, Any]:
    flow, hift = cosyvoice3_networks(tensors)
    source = hift.m_source.l_sin_gen
    source.sine_waves = torch.from_numpy(cases.even_noise()).T[None]
    mel, _ = flow.inference(**given(), streaming=bool(grid))
    return mel[0].numpy(), *sound(hift, mel, last=True)


def cosyvoice3_networks(tensors: dict[str, torch.Tensor]) -> tuple[Any, Any]:
    """Fun-CosyVoice 3's flow and HiFT, of a clone; what that lacks is the package's."""
    for name in [name for name in sys.modules if name.split(".")[0] == "cosyvoice"]:
        del sys.modules[name]
    parts = ("flow", "hifigan", "transformer", "utils")
    bare("cosyvoice", "matcha", "matcha.utils")
    quiet("matcha.utils.pylogger", get_pylogger=lambda *_: None)
    quiet("torchaudio")
    clone = Path(os.environ["COSYVOICE_SOURCE"]) / "cosyvoice"
    sys.modules["cosyvoice"].__path__.insert(0, str(clone))
    for part in parts:
        quiet(f"cosyvoice.{part}")
        found = [f"{place}/{part}" for place in sys.modules["cosyvoice"].__path__]
        sys.modules[f"cosyvoice.{part}"].__path__ = found
    from cosyvoice.flow.DiT.dit import DiT
    from cosyvoice.flow.flow import CausalMaskedDiffWithDiT
    from cosyvoice.flow.flow_matching import CausalConditionalCFM
    from cosyvoice.hifigan.f0_predictor import CausalConvRNNF0Predictor
    from cosyvoice.hifigan.generator import CausalHiFTGenerator
    from cosyvoice.transformer.upsample_encoder import PreLookaheadLayer
    from omegaconf import DictConfig

    usual = torch.get_default_dtype()
    estimator = DiT(**DIT)
    torch.set_default_dtype(torch.float32)  # its table of noise is one of float32
    cfm = CausalConditionalCFM(240, DictConfig(CFM), 1, 80, estimator)
    torch.set_default_dtype(usual)
    flow = CausalMaskedDiffWithDiT(
        80,
        vocab_size=6561,
        pre_lookahead_layer=PreLookaheadLayer(in_channels=80, channels=48, pre_lookahead_len=3),
        decoder=cfm,
    )
    loaded(flow, tensors, "input_embedding", "spk_embed", "pre_lookahead", "decoder.")
    pitch = CausalConvRNNF0Predictor(cond_channels=PITCH_WIDTH)
    hift = CausalHiFTGenerator(**HIFT, f0_predictor=pitch)
    loaded(hift, tensors, "f0_pred", "m_source", "conv_p", "ups", "source_", "resblocks")
    return flow, hift


MAKERS = {"cosyvoice2": cosyvoice, "cosyvoice3": cosyvoice3}


def cosyvoice_classes() -> dict[str, Any]:
    """What `class_utils` offers, without the models that it imports beside it."""
    from cosyvoice.transformer.activation import Swish
    from cosyvoice.transformer.attention import RelPositionMultiHeadedAttention
    from cosyvoice.transformer.embedding import EspnetRelPositionalEncoding
    from cosyvoice.transformer.subsampling import LinearNoSubsampling

    return {
        "COSYVOICE_ACTIVATION_CLASSES": {"swish": Swish},
        "COSYVOICE_ATTENTION_CLASSES": {"rel_selfattn": RelPositionMultiHeadedAttention},
        "COSYVOICE_EMB_CLASSES": {"rel_pos_espnet": EspnetRelPositionalEncoding},
        "COSYVOICE_SUBSAMPLE_CLASSES": {"linear": LinearNoSubsampling},
    }


def chatterbox(tensors: dict[str, torch.Tensor], kind: str, grid: int) -> tuple[Any, Any, Any]:
    """As the package's own S3Token2Wav, of smaller widths."""
    bare("chatterbox", "chatterbox.models", "chatterbox.models.s3gen")
    from chatterbox.models.s3gen import decoder as net
    from chatterbox.models.s3gen import hifigan
    from chatterbox.models.s3gen.configs import CFM_PARAMS
    from chatterbox.models.s3gen.f0_predictor import ConvRNNF0Predictor
    from chatterbox.models.s3gen.flow import CausalMaskedDiffWithXvec
    from chatterbox.models.s3gen.flow_matching import CausalConditionalCFM
    from chatterbox.models.s3gen.transformer import upsample_encoder as up

    net.mask_to_bias = lambda mask, dtype: (1.0 - mask.to(dtype)) * -1.0e10
    mean = kind.endswith("turbo")
    encoder = up.UpsampleConformerEncoder(**ENCODER, static_chunk_size=grid)
    encoder.pre_lookahead_layer = up.PreLookaheadLayer(channels=64, pre_lookahead_len=3)
    encoder.up_layer = up.Upsample1D(channels=64, out_channels=64, stride=2)
    estimator = net.ConditionalDecoder(**UNET, causal=True, meanflow=mean)
    estimator.static_chunk_size = 2 * grid
    cfm = CausalConditionalCFM(spk_emb_dim=80, cfm_params=CFM_PARAMS, estimator=estimator)
    flow = CausalMaskedDiffWithXvec(64, encoder=encoder, decoder=cfm)
    loaded(flow, tensors, "flow.")
    hift = hifigan.HiFTGenerator(**HIFT, f0_predictor=ConvRNNF0Predictor(cond_channels=PITCH_WIDTH))
    loaded(hift, tensors, "mel2wav.")
    hifigan.Uniform = Begins
    steps = {"n_timesteps": 2 if mean else 10, "meanflow": mean}
    with drawing(lambda x: torch.from_numpy(cases.beginnings())[None, :, : x.shape[2]]):
        mel, _ = flow.inference(**given(), **steps)
    pitch, samples = sound(hift, mel, last=False)
    fade = np.zeros(960)
    fade[480:] = (np.cos(np.linspace(np.pi, 0, 480)) + 1) / 2
    samples[:960] *= fade
    return mel[0].numpy(), pitch, samples


class Begins:
    """The phases that harmonics begin with."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high

    def sample(self, sample_shape: tuple[int, ...]) -> torch.Tensor:
        turns = torch.from_numpy(cases.phases()).view(1, -1, 1)
        return self._low + (self._high - self._low) * turns
