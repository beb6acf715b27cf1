"""What the tables of families and codecs do not say of VoxCPM2.

In float64, told the same noise, all patches and stops are the package's; so is speech with an
adapter that its training saved.
"""

import copy
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

from tests.parity.codec_runner import in_pieces, taken_over
from tests.parity.codecs import CODECS
from tests.parity.families.voxcpm2 import FAMILY, write_adapter
from tests.parity.material import arrays, hashed
from tests.parity.voxcpm_cases import CASES, EXACT, RANK, Case, patches, published
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.engine.nn import dense_attention
from ttscommon.engine.nn.weights import published_shapes
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.parameters import AdapterRef
from ttscommon.wire.pieces import Text
from ttsfamilies.base.runners.computation import Out, Prompts, Rows
from ttsfamilies.voxcpm2.blocks import VaeEncoder, encoder_sources
from ttsfamilies.voxcpm2.codec import VaeDecoder
from ttsfamilies.voxcpm2.codec import sources as decoder_sources
from ttsfamilies.voxcpm2.facts import VoxcpmConfig
from ttsfamilies.voxcpm2.family import Voxcpm2
from ttsfamilies.voxcpm2.net import BASE, RESIDUAL, VoxcpmNet, sources
from vocoder.pcm import FULL_SCALE

pytestmark = pytest.mark.slow  # one more family

CLOSE = 1e-9
"""Of patches of about 3."""
ADAPTED = next(case for case in CASES if case.checkpoint == "voxcpm")


class Dense:
    """Keys and values of one stream, in whatever type they come."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if layer in self.known:
            k, v = (torch.cat(pair) for pair in zip(self.known[layer], (k, v), strict=True))
        self.known[layer] = k, v
        own = len(k) - len(q) + torch.arange(len(q))
        return dense_attention(q, k, v, torch.arange(len(k)) <= own[:, None])


@cache
def doubled(folder: Path) -> Voxcpm2:
    """Written there, if it is not, and computed in float64."""
    torch.set_num_threads(1)
    if not folder.exists():
        FAMILY.write(folder, folder.name)
    model = FAMILY.load(folder)
    assert isinstance(model, Voxcpm2)
    model._net.double().solver.freeze()
    return model


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    home = tmp_path_factory.mktemp("voxcpm")
    return lambda name: home / name


def said(model: Voxcpm2, case: Case, adapter: AdapterRef | None = None) -> Arrays:
    """All patches of a case, in float64, without an engine."""
    request = msgspec.structs.replace(FAMILY.request(case), adapter=adapter)
    heard = {"prompt": arrays("voxcpm2")[f"{case.name}/heard"]} if case.seconds else None
    prepared = model.prepare(request, Derived(heard and {**heard, "reference": heard["prompt"]}))
    stream = model.open(prepared)
    stream.feed(list(prepared.read([Text(case.text)], final=True)), final=True)
    types = {"f4": torch.float64, "i8": torch.int64}
    fields = model.spec.state.items()
    state = {name: torch.zeros(1, *f.shape, dtype=types[f.dtype]) for name, f in fields}

    def write(name: str, value: Any, at: int = 0) -> None:
        assert not at
        state[name][0] = torch.from_numpy(np.asarray(value))

    attend, made = {BASE: Dense(), RESIDUAL: Dense()}, []
    while (plan := stream.plan(0)) is not None:
        stream.stage(write)
        out = step(model, plan.decode, plan.end, stream.inputs(plan), state, attend)
        frames = {name: tensor[0].numpy() for name, tensor in out.frames.items()}
        made.append(frames)
        stream.accept(plan.end, frames, bool(out.ended[0]))
    return {name: np.concatenate([one[name] for one in made]) for name in made[0]}


@torch.inference_mode()
def step(
    model: Voxcpm2,
    decode: bool,
    end: int,
    inputs: Arrays,
    state: Mapping[str, Tensor],
    attend: Mapping[str, Dense],
) -> Out:
    slot = torch.zeros(1, dtype=torch.int64)
    if decode:
        return model.decode(Rows(slot, torch.tensor([end - 1]), 1), state, attend)
    told = {name: torch.from_numpy(array) for name, array in inputs.items()}
    told["patch"] = told["patch"].double()
    last, samples = torch.tensor([end - 1]), torch.ones(1, dtype=torch.bool)
    return model.prefill(Prompts(slot, torch.arange(end), 1, told, last, samples), state, attend)


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_in_float64_patches_and_stops_are_the_references(
    case: Case, checkpoint: Callable[[str], Path]
) -> None:
    found = said(doubled(checkpoint(case.checkpoint)), case)
    np.testing.assert_allclose(
        found["patch"], arrays("voxcpm2")[f"{case.name}/patches"], atol=CLOSE
    )
    np.testing.assert_array_equal(found["last"], arrays("voxcpm2")[f"{case.name}/stops"])


def test_with_an_adapter_of_the_package_patches_are_the_references(
    checkpoint: Callable[[str], Path],
) -> None:
    model = copy.copy(doubled(checkpoint("voxcpm")))
    model._net = copy.deepcopy(model._net)
    model.adapt(1, RANK)
    write_adapter(checkpoint("adapter"), checkpoint("voxcpm"))
    files = Files.read(checkpoint("adapter"), 1 << 20)
    assert model.adapters is not None
    model.adapters.put(0, model.adapters.fitted(Lora.parse(files, RANK)))
    found = said(model, ADAPTED, AdapterRef("a", files.digest))["patch"]
    np.testing.assert_allclose(found, arrays("voxcpm2")["adapted/patches"], atol=CLOSE)
    plain = arrays("voxcpm2")[f"{ADAPTED.name}/patches"]
    assert np.abs(found[:1] - plain[:1]).max() > 0.1


def test_names_and_shapes_of_the_published_sizes_are_the_references() -> None:
    c = msgspec.convert(published(), VoxcpmConfig)
    assert not c.problems()
    with torch.device("meta"):
        net, encoder, decoder = VoxcpmNet(c), VaeEncoder(c.audio_vae_config), VaeDecoder(c)
    vae = published_shapes(encoder, encoder_sources(encoder))
    vae |= {n.replace("fc_mu", "fc_logvar"): s for n, s in vae.items() if "fc_mu" in n}
    vae |= published_shapes(decoder, decoder_sources(decoder))
    vae["decoder.sr_bin_boundaries"] = (3,)
    shapes = published_shapes(net, sources(net))
    shapes |= {f"audio_vae.{name}": shape for name, shape in vae.items()}
    assert hashed(shapes) == str(arrays("voxcpm2")["shapes"])
    assert (c.frame_samples, c.frame_rate_hz, c.audio_vae_config.reach) == (7680, 6.25, 20)


def test_a_takeover_that_does_not_begin_anew_gives_the_same_samples(tmp_path: Path) -> None:
    # More patches than a takeover decodes again.
    long = {"patch": np.concatenate([patches()] * 3)}
    subject = CODECS["voxcpm2"]._replace(material=lambda: long)
    subject.write(tmp_path)
    codec = subject.load(tmp_path)
    whole, rests = in_pieces(codec, subject, ()), taken_over(codec, subject)
    assert len(rests) > 5
    for first, rest in rests:
        np.testing.assert_allclose(rest, whole[first:], 0, 2.5 / FULL_SCALE)
