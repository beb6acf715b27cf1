"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import torch

from ttscommon.wire.fields import NOTHING, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.lm.tokenizer import RankedTokenizer
from ttsfamilies.glm_voice.family import GlmNet, GlmVoice, WhisperVQ, load_hearing, load_net
from ttsfamilies.glm_voice.request import PRE_TOKEN, DialogueIds, GlmPrepared
from ttsfamilies.glm_voice.synthetic import write_checkpoint


@cache
def parts() -> tuple[GlmNet, DialogueIds, WhisperVQ]:
    """A network, its tokenizer, and what hears."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(folder, seed=3)
        net = load_net(folder, "cpu", "float32")
        tokenizer = RankedTokenizer.load(folder, PRE_TOKEN)
        ids = DialogueIds(tokenizer, net.config.padded_vocab_size)
        return net, ids, load_hearing(folder, "cpu")


class Brief(GlmVoice):
    """Answers in 24 ids where a request says nothing of their number."""

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> GlmPrepared:
        if request.sampling.max_new_tokens is None:
            brief = Sampling(temperature=0.9, max_new_tokens=24)
            request = msgspec.structs.replace(request, sampling=brief)
        return super().prepare(request, derived)


def tiny() -> Brief:
    """With a voice that tests ask for."""
    torch.set_num_threads(1)
    return Brief("m", *parts(), voice="slt")
