"""A frame's residual codes in one launch, in Triton's interpreter, against pass after pass."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import only
from ttscommon.engine.nn import RMSNorm
from ttsfamilies.base.kernels.stacked import Stacked, fits
from ttsfamilies.base.lm.depth import DepthTransformer, Picks, Scratch
from ttsfamilies.base.sampling import Noise, Settings
from ttsfamilies.qwen3_tts.config import BackboneConfig, PredictorConfig
from ttsfamilies.qwen3_tts.predictor import CodePredictor

pytest.importorskip("triton")

ROWS, RESIDUALS, VOCABULARY, OUTER, DIM = 3, 3, 32, 48, 32


def sizes(outer: int) -> BackboneConfig:
    """As far as a predictor reads them."""
    inner = PredictorConfig(VOCABULARY, DIM, 48, 2, 4, 2, 16, 1e-6, 1e6, RESIDUALS + 1)
    told = SimpleNamespace(hidden_size=outer, codebooks=RESIDUALS + 1, code_predictor_config=inner)
    return cast(BackboneConfig, told)


def drawn(outer: int = OUTER) -> CodePredictor:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = CodePredictor(sizes(outer))
    for module in net.modules():
        if isinstance(module, RMSNorm):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    torch.nn.init.normal_(net.heads, std=0.5)
    net.whole = True
    return net.eval().requires_grad_(False)


def asked(outer: int = OUTER) -> tuple[Tensor, Tensor, Picks]:
    g = torch.Generator().manual_seed(1)
    hidden, first = torch.randn(2, ROWS, outer, generator=g)
    noise = Noise(torch.randint(0, 2**62, (ROWS,), generator=g), torch.arange(ROWS))
    settings = Settings(
        torch.tensor([0.9, 0.0, 1.5]), torch.tensor([5, 0, 3]), torch.tensor([1.0, 0.5, 0.7])
    )
    return hidden, first, Picks(settings, settings, noise)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device with several programs: a phase a launch, since they run one by one here."""
    from ttsfamilies.base.kernels import predictor_triton

    run: Callable[..., None] = predictor_triton.run

    def phase_by_phase(*told: Any) -> None:
        *others, programs, part = told
        assert programs == 1
        for phase in part:
            run(*others, 5, range(phase, phase + 1))

    monkeypatch.setattr(predictor_triton, "run", phase_by_phase)


@pytest.mark.parametrize("outer", [OUTER, pytest.param(DIM, marks=pytest.mark.slow)])
def test_one_launch_draws_the_codes_of_pass_after_pass(outer: int) -> None:
    net, (hidden, first, picks) = drawn(outer), asked(outer)
    wanted = DepthTransformer.forward(net, hidden, first, picks)
    with only("triton"):
        found = net(hidden, first, picks)
    assert net._stacked is not None
    assert found.tolist() == wanted.tolist()
    assert len({tuple(row) for row in found.tolist()}) == ROWS


@pytest.mark.slow
@pytest.mark.usefixtures("in_parts")
def test_programs_that_share_its_tiles_draw_the_same() -> None:
    net, (hidden, first, picks) = drawn(), asked()
    wanted = DepthTransformer.forward(net, hidden, first, picks)
    with only("triton"):
        assert net(hidden, first, picks).tolist() == wanted.tolist()


@pytest.mark.slow
def test_its_logits_are_as_close_to_float64_as_those_of_pass_after_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ttsfamilies.base.kernels import predictor_triton

    made: list[predictor_triton.FrameScratch] = []
    of = predictor_triton.FrameScratch.of

    def kept(*told: Any) -> predictor_triton.FrameScratch:
        made.append(of(*told))
        return made[-1]

    monkeypatch.setattr(predictor_triton.FrameScratch, "of", kept)
    net, exact, (hidden, first, picks) = drawn(), drawn().double(), asked()
    with only("triton"):
        codes = net(hidden, first, picks)
    scratch = Scratch(exact.decoder.config, ROWS, RESIDUALS + 1, hidden.double())
    angles = exact.decoder.rope.angles(torch.arange(RESIDUALS + 1))
    inputs = torch.stack((hidden, first), 1).double()
    for codebook in range(1, RESIDUALS + 1):
        wanted = exact._logits(inputs, codebook, scratch, angles)
        inputs = exact.embed(codes[:, codebook - 1], codebook)[:, None]
    assert (made[0].logits - wanted).abs().max() < 3e-6 * wanted.abs().max()


def test_parameters_become_parts_of_what_is_stacked() -> None:
    net = drawn()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    stacked = Stacked.of(net.decoder, net.project, net.codes.weight, net.heads)
    block = cast(Any, net.decoder.blocks[1])
    assert block.attention.qkv.weight.data_ptr() == stacked.qkv[1].data_ptr()
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_what_the_kernel_does_not_fit_goes_pass_after_pass() -> None:
    config = drawn().decoder.config
    assert fits(config, OUTER, VOCABULARY, RESIDUALS)
    assert not fits(config, OUTER, 33, RESIDUALS)
    assert not fits(config, OUTER, VOCABULARY, RESIDUALS + 1)
    assert not fits(config, OUTER + 1, VOCABULARY, RESIDUALS)


def test_another_choice_of_codes_goes_pass_after_pass() -> None:
    net, (hidden, first, _) = drawn(), asked()

    def greedy(logits: Tensor, codebook: int, rules: Any = None) -> Tensor:
        del codebook, rules
        return logits.argmax(-1)

    wanted = net(hidden, first, greedy)
    with only("triton"):
        assert net(hidden, first, greedy).tolist() == wanted.tolist()
    assert net._stacked is None
