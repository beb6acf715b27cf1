"""The teacher, hibari-tts, opened up: tokens, durations, and what its decoder is told.

The package holds one ONNX graph. Three cuts through it give three sessions: what a text's tokens
are and how long they last, how pitch and energy go once the durations are known, and what the
decoder's last hidden state is. Between them durations and pitch can be changed.

`hibari` is imported where it is used, so that the rest of the training needs no teacher.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Array

UNIT_HOPS: Final = 2
_DURATIONS: Final = "/Cast_32_output_0"
_REAL_DURATIONS: Final = "/Sub_output_0"
_TEXT: Final = "/Transpose_22_output_0"
_PROSODY: Final = "/Transpose_55_output_0"
_INPUTS: Final = "/Concat_43_output_0"
_HIDDEN: Final = "/dec_norm/LayerNormalization_output_0"


@dataclass(frozen=True)
class Plan:
    """What the teacher makes of tokens before it knows how long they last.

    text: [tokens, 128], what the decoder is told; prosody: [tokens, 192], what pitch and energy
    follow from; units: [tokens] durations at normal speed in units of 25 ms, not rounded.
    """

    text: Array
    prosody: Array
    units: Array


def graph_path() -> Path:
    """Where the teacher's graph is installed. Raises ImportError."""
    import hibari

    return Path(hibari.__file__).parent / "assets" / "hibari.onnx"


class Teacher:
    """Single-threaded; a sentence of 4 s takes about 12 ms."""

    def __init__(self) -> None:
        import onnx

        self._model = onnx.load(graph_path())
        self._plan = self._session(["ids"], [_TEXT, _PROSODY, _REAL_DURATIONS])
        self._prosody = self._session([_DURATIONS, _PROSODY], ["f0", "/Mul_62_output_0"])
        self._decoder = self._session([_INPUTS], [_HIDDEN])

    def plan(self, ids: Sequence[int]) -> Plan:
        """Read tokens; the first and the last are 0, silence."""
        text, prosody, units = self._plan.run(None, {"ids": np.array([ids], np.int64)})
        return Plan(text[0].T, prosody[0].T, units)

    def prosody(self, plan: Plan, units: Array) -> tuple[Array, Array]:
        """Pitch in Hz (40 or less is unvoiced) and energy, [hops] each, for given durations."""
        feed = {_DURATIONS: units.astype(np.int64), _PROSODY: plan.prosody.T[None]}
        f0, energy = self._prosody.run(None, feed)
        return f0[0], energy[0]

    def inputs(self, plan: Plan, units: Array, f0: Array, energy: Array) -> Array:
        """[hops, 130]: what the decoder is told of each hop."""
        text = np.repeat(plan.text, units * UNIT_HOPS, 0)
        pitch = np.log1p(np.maximum(f0, 0)) / 5
        return np.concatenate([text, pitch[:, None], energy[:, None] / 5], 1).astype(np.float32)

    def hidden(self, inputs: Array) -> Array:
        """[hops, 130] -> [hops, 256]: the decoder's last hidden state."""
        (hidden,) = self._decoder.run(None, {_INPUTS: inputs.T[None]})
        return np.asarray(hidden[0])

    def phonemes(self, text: str) -> list[str]:
        """The teacher's own reading of a text, a string of symbols for each sentence."""
        return list(self._own.phonemize(text))

    def ids(self, phonemes: str) -> list[int]:
        """Symbols -> tokens with silence at both ends."""
        return list(self._own.ids(phonemes))

    def sound(self, text: str) -> Array:
        """The teacher's own sound of a text, [samples] float32 at 24 kHz."""
        return np.concatenate(list(self._own.stream(text, seed=0)))

    @cached_property
    def _own(self) -> Any:
        from hibari import Hibari

        return Hibari()

    def _session(self, inputs: list[str], outputs: list[str]) -> Any:
        """The part of the graph between the named tensors."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        part = _cut(self._model, inputs, outputs).SerializeToString()
        return onnxruntime.InferenceSession(part, options, providers=["CPUExecutionProvider"])


def _cut(model: Any, inputs: list[str], outputs: list[str]) -> Any:
    """The nodes that lead from `inputs` to `outputs`, as a model of their own."""
    import onnx
    from onnx import helper

    makers = {name: node for node in model.graph.node for name in node.output}
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    wanted, needed = list(outputs), set(inputs)
    kept: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name and name not in needed:
            needed.add(name)
            if name in makers:
                kept.add(makers[name].name)
                wanted += makers[name].input
    integers = {"ids", _DURATIONS}
    kind = onnx.TensorProto

    def typed(name: str) -> Any:
        return helper.make_tensor_value_info(
            name, kind.INT64 if name in integers else kind.FLOAT, None
        )

    graph = helper.make_graph(
        [node for node in model.graph.node if node.name in kept],
        "part",
        [typed(name) for name in inputs],
        [typed(name) for name in outputs],
        [weights[name] for name in needed if name in weights],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def weights() -> dict[str, Tensor]:
    """All weights as float32; matrices are stored as int8 with one scale each.

    Names are the graph's: "m.dec.0.dw.weight", or "/dec.0/pw1/Transpose_output_0" for a matrix
    [in, out].
    """
    import onnx
    from onnx import numpy_helper

    raw = {t.name: numpy_helper.to_array(t) for t in onnx.load(graph_path()).graph.initializer}
    found = {name: value for name, value in raw.items() if name.startswith(("m.", "pn."))}
    for name in raw:
        if name.endswith("_quantized"):
            base = name.removesuffix("_quantized")
            zero, scale = raw[base + "_zero_point"], raw[base + "_scale"]
            found[base] = (raw[name].astype(np.float32) - np.float32(zero)) * scale
    return {name: torch.tensor(np.array(value)) for name, value in found.items()}
