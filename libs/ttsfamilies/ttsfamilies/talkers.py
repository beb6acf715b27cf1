"""Model families: a package each, found by what a folder's files say of themselves."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ttscommon.engine.checkpoint import find_checkpoint
from ttsfamilies.base.talker.options import LEXICON, MOST_RANK, ModelOptions
from ttsfamilies.known import FAMILIES

if TYPE_CHECKING:
    from ttscommon.engine.nn.packed import Weights
    from ttsfamilies.base.runners.model import TalkerModel

# Before a vocoder on the same GPU: steps are short, and every stream waits for them.
_PRIORITY: Final = -1


def load(
    name: str,
    path: Path,
    *,
    pads: bool = False,
    device: str = "cpu",
    lexicon: Path = LEXICON,
    adapters: int = 0,
    adapter_rank: int = MOST_RANK,
    codec: Path | None = None,
    weights: Weights | None = None,
) -> TalkerModel:
    """Load a voice folder or a published checkpoint, by folder or hub name, as model `name`.

    pads, lexicon, codec: see ModelOptions. device: "cpu", "cuda" or "cuda:1";
    checkpoints run in bfloat16 on a GPU. adapters: how many are held at once, of ranks up
    to `adapter_rank`. weights: what a language model's are packed as; None leaves them. Raises
    VoiceError, which for an unknown family lists the known ones, or DeviceError. torch is imported
    only for families that use it.
    """
    from ttscommon.engine.device.device import device_of
    from ttscommon.engine.nn.packed import packed_on, packing
    from ttsfamilies.base.kernels.trials import TRIALS

    where = device_of(device, _PRIORITY, TRIALS)
    folder = find_checkpoint(str(path))
    options = ModelOptions(pads, where, lexicon, codec)
    with packing(packed_on(options.where, weights)) as packed:
        family = import_module(f"{FAMILIES.of(folder).home}.family")
        model: TalkerModel = family.load(name, folder, options)
    if packed is not None:
        packed.tell(name)
    model.compute_on(where)
    if adapters:
        model.adapt(adapters, adapter_rank)
    return model
