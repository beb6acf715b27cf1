"""The reference runner of Piper's voices, onnxruntime, told which noise to use.

The published graph draws its noise without a seed. Here both draws become inputs, and durations and
latents outputs; everything else is computed as published.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

Floats = npt.NDArray[np.float32]
LATENT: Final = 192


class Said(NamedTuple):
    """durations: [ids] frames. latents: [frames, latent]. sound: [samples]."""

    durations: npt.NDArray[np.int64]
    latents: Floats
    sound: Floats


@cache
def session(path: Path) -> onnxruntime.InferenceSession:
    """The voice's graph with its noise as inputs."""
    model = onnx.load(str(path))
    graph = model.graph
    drawn = [node for node in graph.node if node.op_type == "RandomNormalLike"]
    for node in drawn:
        graph.node.remove(node)
        name = node.output[0]
        graph.input.append(onnx.helper.make_tensor_value_info(name, 1, [None, None, None]))
    (before,) = (n.input[0] for n in graph.node if n.name == "/dec/conv_pre/Conv")
    (lasts,) = (n.output[0] for n in graph.node if n.op_type == "Ceil")
    for name in (lasts, before):
        graph.output.append(onnx.helper.make_tensor_value_info(name, 1, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def say(
    path: Path,
    ids: Sequence[int],
    scales: tuple[float, float, float],
    noise: Callable[[int], Floats],
    speaker: int | None = None,
) -> Said:
    """A sentence; scales: of the noise, of length, of the durations' noise.

    noise: the noise of durations [2, ids] given 0, and of so many frames [latent, frames].
    """
    found = session(path)
    feeds: dict[str, Any] = {
        "input": np.array([ids], np.int64),
        "input_lengths": np.array([len(ids)], np.int64),
        "scales": np.array(scales, np.float32),
        "/dp/RandomNormalLike_output_0": noise(0)[None],
    }
    if speaker is not None:
        feeds["sid"] = np.array([speaker], np.int64)
    frames = "/RandomNormalLike_output_0"
    lasts = found.get_outputs()[1].name
    # Durations say how many frames of noise there are, so they are asked for first.
    (durations,) = found.run([lasts], {**feeds, frames: np.zeros((1, LATENT, 1), np.float32)})
    feeds[frames] = noise(int(durations.sum()))[None]
    sound, durations, latents = found.run(None, feeds)
    return Said(durations.reshape(-1).astype(np.int64), latents[0].T, sound.reshape(-1))
