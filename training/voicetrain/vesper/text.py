"""The teacher's texts: everyday sentences, prose, long ones, cut as served."""

import random
from collections.abc import Iterator
from importlib import resources

from ttsfamilies.base.text.segment import utterances
from voicetrain.corpus import contaminated, held_out, normal_form, training_text, wordnet_sentences

LONG_SHARE = 0.2
CUT_SHARE = 0.3
MOST_WORDS = 40
SETS = ("easy", "hard")
_LINKS = (", and ", ", but ", ", so ", ", which is why ", "; ", ", while ", ", because ", ", or ")


def long_texts() -> list[str]:
    """The evaluation's long texts, each of one paragraph."""
    text = resources.files("voicetrain").joinpath("data", "long.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line]


def evaluation_sentences() -> list[str]:
    """Every sentence that evaluation says, and so training must not."""
    long = [piece for text in long_texts() for piece in utterances(text)]
    return [*(sentence for name in SETS for sentence in held_out(name)), *long]


def _long(sentences: list[str], generator: random.Random) -> Iterator[str]:
    """Two to four sentences as one, with commas and links, up to MOST_WORDS words."""
    source = iter(sentences)
    for first in source:
        whole = first.rstrip(".!?")
        for _ in range(generator.choice((1, 2, 2, 3))):
            following = next(source, None)
            if following is None or len(f"{whole} {following}".split()) > MOST_WORDS:
                break
            tail = following.rstrip(".!?")
            whole += generator.choice(_LINKS) + tail[0].lower() + tail[1:]
        yield whole + "."


def corpus_texts(count: int, seed: int) -> list[str]:
    """About `count` utterances, shuffled; the same for the same seed.

    Each is what the server's segmenter gives: a whole sentence, or, as at the beginning of a
    request, one cut behind a clause.
    """
    generator = random.Random(seed)
    long_count = int(count * LONG_SHARE)
    prose = wordnet_sentences(generator)
    generator.shuffle(prose)
    long = [text for text in _long(prose, generator) if len(text.split()) > 14][:long_count]
    written = [*training_text(count - long_count, seed), *long]
    generator.shuffle(written)
    pieces = []
    for text in written:
        pieces += utterances(text) if generator.random() < CUT_SHARE else [text]
    bad = set(contaminated(pieces, evaluation_sentences()))
    spoken = [piece for piece in dict.fromkeys(pieces) if piece not in bad and normal_form(piece)]
    return spoken[:count]
