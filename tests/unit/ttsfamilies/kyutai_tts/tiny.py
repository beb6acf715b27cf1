"""A checkpoint small enough for the engine's conformance tests: three codebooks, near the text."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.kyutai_tts.family import KyutaiTts
from ttsfamilies.kyutai_tts.net import KyutaiNet, load_net
from ttsfamilies.kyutai_tts.request import WordTokenizer
from ttsfamilies.kyutai_tts.synthetic import SMALL, config, write_checkpoint
from ttsfamilies.kyutai_tts.voices import HeardVoices, load_voices

# Words of one piece; the others are spelt.
WHOLE = ("small", "step,", "talker.", "And", "then", "another", "one,", "good", "measure!", "end.")


@cache
def parts() -> tuple[KyutaiNet, HeardVoices, WordTokenizer]:
    """Networks, voices and tokenizer."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        told = config(3, SMALL, audio_delay=0.16, context=19, layers=1, words=WHOLE)
        write_checkpoint(path, told, seed=8, asking=-2.2, words=WHOLE)
        net = load_net(path, "cpu", "float32")
        return net, load_voices(path, net), WordTokenizer(path, net.config)


def tiny() -> KyutaiTts:
    torch.set_num_threads(1)
    return KyutaiTts("m", *parts())
