"""What the reference is asked of synthetic VoxCPM2 checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import Floats, normal, pcm

Doubles = npt.NDArray[np.float64]

SEED: Final = 4
LATENTS: Final = 4
VALUES: Final = 8
RATE: Final = 16_000
FRAMES: Final = 12
STRIDE: Final = 29
SPEED_FRAMES: Final = 12
TEXT: Final = "It's the end of the world, and one is singing: how odd!"
HEADS: Final = {"heads": (16, 2, 128), "local_heads": 16}
# By folder: how its synthetic checkpoint is written, in the terms of the writer.
CHECKPOINTS: Final[dict[str, dict[str, Any]]] = {
    "voxcpm-turning": {"residual_lm_no_rope": False, "going": 8.0},
    "voxcpm": {},
    "voxcpm-going": {"going": 4.0},
    "voxcpm-short": {"max_length": 256, "long": False},
    "voxcpm-heads": HEADS,
}


@dataclass(frozen=True)
class Case:
    """seconds: of the recording that is cloned. said: what is said in it, if speech is to go on
    from it. designed: in words. noise: what it is multiplied by.
    """

    name: str
    checkpoint: str = "voxcpm"
    text: str = TEXT
    seed: int = 16
    noise: float = 1.0
    guidance: float = 2.0
    seconds: float = 0.0
    said: str = ""
    designed: str = ""
    frames: int | None = None

    @property
    def target(self) -> str:
        """The text as the reference is told it."""
        return f"({self.designed}){self.text}" if self.designed else self.text


CASES: Final = (
    Case("a turning residual model", "voxcpm-turning", seconds=1.1, seed=10, frames=6),
    Case("a voice of a recording", seconds=1.2, seed=5),
    Case("the usual settings"),
    Case("without noise", noise=0.0, text="to say: odd!", frames=6),
    Case("a designed voice", designed="one old singer", seed=3),
    Case("gone on from a recording", seconds=1.4, said="to say", seed=6),
    Case("Chinese words", text="\u4f60\u597d, \u597d\u4f60\u597d \u4f60!", seed=7),
    Case("other guidance, less noise", guidance=1.3, noise=0.7, seed=8),
    Case("not made for more", "voxcpm-short", seed=11),
    Case("published heads", "voxcpm-heads", seconds=1.1, said="one", seed=12, frames=6),
)
# In float32 values of the lattice are rounded to other steps: by the seventh patch of the long one,
# and by the second of one which no noise sets apart.
EXACT: Final = (
    *CASES,
    Case("without noise, of a recording", noise=0.0, seconds=1.2, seed=5, frames=6),
    Case("a long one", "voxcpm-going", seed=9, frames=30),
)
# An adapter as the package's training writes it.
RANK: Final = 4
ALPHA: Final = 8
ADAPTED: Final = (
    "base_lm.layers.0.self_attn.q_proj",
    "base_lm.layers.1.self_attn.o_proj",
    "residual_lm.layers.1.self_attn.v_proj",
    "feat_decoder.estimator.decoder.layers.0.self_attn.k_proj",
    "enc_to_lm_proj",
    "lm_to_dit_proj",
    "res_to_dit_proj",
    "fusion_concat_proj",
)


def published() -> dict[str, Any]:
    """A config.json of the published sizes; those of the VAE are the package's defaults."""
    pairs = 64
    local = {"hidden_dim": 1024, "ffn_dim": 4096, "num_heads": 16, "num_layers": 12}
    return {
        "lm_config": {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "vocab_size": 73_448,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "kv_channels": 128,
            "rms_norm_eps": 1e-5,
            "max_position_embeddings": 32_768,
            "rope_theta": 10_000.0,
            "use_mup": False,
            "scale_emb": 12,
            "dim_model_base": 256,
            "scale_depth": 1.4,
            "rope_scaling": {
                "type": "longrope",
                "long_factor": [1.0] * pairs,
                "short_factor": [1.0] * pairs,
                "original_max_position_embeddings": 32_768,
            },
        },
        "residual_lm_no_rope": True,
        "encoder_config": {**local, "kv_channels": 128},
        "dit_config": {**local, "kv_channels": 128, "cfm_config": {}},
        "audio_vae_config": {},
        "device": "cpu",
        "dtype": "float32",
    }


def noise(seed: int, frame: int) -> Doubles:
    """Standard normal, [LATENTS, VALUES]; numbers that float32 holds."""
    return normal([seed, frame, 78], LATENTS, VALUES).astype(np.float64)


def recording(case: Case, rate: int = RATE) -> npt.NDArray[np.int16]:
    """[samples]."""
    return pcm(case.seconds, case.seed, rate)


def patches() -> Floats:
    """What the codec is given: [FRAMES, LATENTS, VALUES]."""
    return normal(3, FRAMES, LATENTS, VALUES)


def halves(name: str, shape: tuple[int, int]) -> Floats:
    """A half of an adapter, by its name."""
    random = np.random.Generator(np.random.PCG64([SEED, *name.encode()]))
    return (0.3 * random.standard_normal(shape)).astype(np.float32)
