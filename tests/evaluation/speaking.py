"""Both stages of a checkpoint in this process, speaking what is to be judged."""

from collections.abc import Sequence

import numpy as np

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, Work
from ttsfamilies.base.talker.base import Family


def spoken(
    talker: Family, codec: Codec, asked: Sequence[SpeechRequest], *, slots: int = 1
) -> list[tuple[Array, Arrays]]:
    """[samples] of each request, and the arrays of its frames; `slots` of them at a time."""
    engine = Engine(talker, slots=slots, blocks=600 * slots, metrics=Metrics())
    found: list[tuple[Array, Arrays]] = []
    for request, made in zip(asked, synthesise(engine, asked), strict=True):
        frames = {name: made.arrays[name] for name in codec.spec.frame}
        (sound,) = codec.decode([Work(codec.open(request), frames, final=True)])
        found.append((np.asarray(sound), made.arrays))
    return found
