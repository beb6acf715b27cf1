"""CosyVoice's language models beside their authors' own."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import msgspec
import numpy as np
from safetensors.torch import save_file

from tests.parity.cosyvoice_cases import CASES, CHECKPOINTS, IDS, SEED, SPEED_TOKENS, Case, heard
from tests.parity.material import said
from tests.parity.subject import SOUND, Subject, asked
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.s3.speaker import SpeakerSizes
from ttsfamilies.base.s3.synthetic import write_speaker, write_tokens
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.cosyvoice.family import load
from ttsfamilies.cosyvoice.synthetic import PUBLISHED, SMALL, write_checkpoint

HEARING: Final = "s3"
SPEAKER: Final = SpeakerSizes(growth=4, inner=8, first=8, gate=4)
# Tokens, and how often more text was asked for before each, by case.
goldens = partial(said, "cosyvoice")


def write_hearing(folder: Path) -> None:
    """What hears recordings, of both versions; as far as the references have sizes to choose.

    For the reference also the speaker's network as it was before it was published.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for version in (2, 3):
        path = folder / f"speech_tokenizer_v{version}.onnx"
        write_tokens(path, version=version, seed=SEED)
    tensors = write_speaker(folder / "campplus.onnx", sizes=SPEAKER, seed=SEED)
    save_file(tensors, folder / "speaker.safetensors")


class CosyVoiceSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    environment = "cosyvoice"
    published_heads: ClassVar = {"backbone": PUBLISHED}
    loads = staticmethod(partial(load, how=ModelOptions()))
    ids = IDS

    def write(self, folder: Path, checkpoint: str) -> None:
        version, published, ending, filling = CHECKPOINTS[checkpoint]
        heads = PUBLISHED if published else SMALL
        write_checkpoint(
            folder, version=version, heads=heads, seed=SEED, ending=ending, filling=filling
        )

    def write_all(self, folder: Path) -> None:
        super().write_all(folder)
        write_hearing(folder / HEARING)

    def request(self, case: Case) -> SpeechRequest:
        sampling = Sampling(temperature=0.0 if case.greedy else None, max_new_tokens=case.tokens)
        reference = msgspec.structs.replace(SOUND, text=case.said, x_vector_only=not case.said)
        return asked(
            case,
            instructions=case.how,
            whole_text=not case.streamed,
            reference=reference,
            sampling=sampling,
        )

    def spoken_for_speed(self, batch: int) -> Sequence[SpeechRequest]:
        sampling = Sampling(max_new_tokens=SPEED_TOKENS)
        one = msgspec.structs.replace(self.request(CASES[0]), sampling=sampling)
        return [msgspec.structs.replace(one, request_id=f"r{i}", seed=i) for i in range(batch)]

    def heard_for_speed(self) -> Arrays:
        return {"token": heard(CASES[0])}

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        del model
        return Derived({"token": heard(case)}, ())

    def wanted(self, case: Case) -> Arrays:
        found = goldens()[case.name]
        return {
            "token": np.array(found["tokens"], np.int16),
            "passage": np.array(found["turns"], np.int32),
        }


FAMILY: Final = CosyVoiceSubject()
