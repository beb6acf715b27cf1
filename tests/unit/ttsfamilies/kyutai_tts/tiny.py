"""A checkpoint small enough for the engine's conformance tests: three codebooks, near the text."""

from functools import cache, partial
from pathlib import Path

from tests.unit.ttsfamilies.codecs import loaded
from ttsfamilies.kyutai_tts.family import KyutaiTts
from ttsfamilies.kyutai_tts.net import KyutaiNet, load_net
from ttsfamilies.kyutai_tts.request import WordTokenizer
from ttsfamilies.kyutai_tts.synthetic import SMALL, config, write_checkpoint
from ttsfamilies.kyutai_tts.voices import HeardVoices, load_voices

# Words of one piece; the others are spelt.
WHOLE = ("small", "step,", "talker.", "And", "then", "another", "one,", "good", "measure!", "end.")


def read(folder: Path) -> tuple[KyutaiNet, HeardVoices, WordTokenizer]:
    """Networks, voices and tokenizer."""
    net = load_net(folder, "cpu", "float32")
    return net, load_voices(folder, net), WordTokenizer(folder, net.config)


@cache
def parts() -> tuple[KyutaiNet, HeardVoices, WordTokenizer]:
    told = config(3, SMALL, audio_delay=0.16, context=19, layers=1, words=WHOLE)
    write = partial(write_checkpoint, asking=-2.2, words=WHOLE)
    return loaded(read, write, told, seed=8)


def tiny() -> KyutaiTts:
    return KyutaiTts("m", *parts())
