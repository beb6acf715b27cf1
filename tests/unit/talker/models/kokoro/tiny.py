"""A checkpoint small enough for the engine's conformance tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.kokoro import write_checkpoint
from talker.models.kokoro.family import Kokoro
from talker.models.kokoro.net import KokoroProsody, load_net
from talker.text.english import english
from ttscommon.engine.kokoro import Voices


@cache
def parts() -> tuple[KokoroProsody, Voices]:
    """A network, and voices of which one has the name that tests ask for."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=3)
        net = load_net(Path(folder))
        found = Voices.load(Path(folder), net.config)
    packs = {name: found.pack(name) for name in found.names}
    return net, Voices({**packs, "alt": found.pack("af_heart"), "slt": found.pack("af_sky")})


def tiny() -> Kokoro:
    """With a voice "slt", whose letter is taken for one of English."""
    torch.set_num_threads(1)
    net, voices = parts()
    return Kokoro("m", net, voices, english(Path("nowhere")))
