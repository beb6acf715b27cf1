"""A checkpoint small enough for the engine's conformance tests, in memory."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import torch

from ttscommon.wire.fields import NOTHING, Derived
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.qwen3_tts.config import GenerationConfig, StackConfig, load_config
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from ttsfamilies.qwen3_tts.net import TalkerNet
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer
from ttsfamilies.qwen3_tts.request import Qwen3Prepared
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

CODEBOOKS = 4
MOST_FRAMES = 90


@cache
def _parts() -> tuple[TalkerNet, TurnTokenizer]:
    """Fewer codebooks and layers than any published model, and a speaker that tests ask for."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), "tiny", "custom_voice", small=True)
        config, tokenizer = load_config(Path(folder)), TurnTokenizer.load(Path(folder))
    talker = config.talker_config
    predictor: StackConfig = replace(
        talker.code_predictor_config, num_hidden_layers=1, num_code_groups=CODEBOOKS
    )
    talker = replace(
        talker,
        num_hidden_layers=2,
        num_code_groups=CODEBOOKS,
        code_predictor_config=predictor,
        spk_id={"slt": 3065},
        spk_is_dialect={},
    )
    torch.manual_seed(0)
    net = TalkerNet(replace(config, talker_config=talker)).eval().requires_grad_(False)
    for name, parameter in net.named_parameters():
        if parameter.ndim > 1:  # wide logits, so that ids follow the input
            parameter.normal_(std=0.5 if "text" in name or "code" in name else 0.2)
    net.codec_head.weight[talker.codec_eos_token_id] *= 1.5
    return net, tokenizer


class Streamed(Qwen3Tts):
    """Text is told a token a step where a request does not say otherwise."""

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Qwen3Prepared:
        told = msgspec.structs.replace(request, whole_text=bool(request.whole_text))
        return super().prepare(told, derived)


def tiny(*, streaming: bool = True, pads: bool = False) -> Qwen3Tts:
    """Text a token a step, unless told otherwise; speech ends by itself or after MOST_FRAMES."""
    torch.set_num_threads(1)
    net, tokenizer = _parts()
    defaults = GenerationConfig(max_new_tokens=MOST_FRAMES + 1)
    kind = Streamed if streaming else Qwen3Tts
    return kind("m", net, tokenizer, defaults, pads=pads)
