"""Triton runs on CUDA devices, numba on processors, plain torch elsewhere, if no test insists."""

import torch

from ttscommon.engine.kernels.choice import only, use_numba, use_triton


def test_tensors_of_the_cpu_do_not_take_tritons_version() -> None:
    assert not use_triton(torch.zeros(1))


def test_a_processor_takes_numbas_version_for_float32_without_gradients() -> None:
    assert not use_numba(torch.zeros(1))
    with torch.no_grad():
        assert use_numba(torch.zeros(1))
        assert not use_numba(torch.zeros(1, dtype=torch.bfloat16))
        assert not use_numba(torch.zeros(1, device="meta"))
        with only("torch"):
            assert not use_numba(torch.zeros(1))
        with torch.autocast("cpu", torch.bfloat16):
            assert not use_numba(torch.zeros(1))


def test_a_version_can_be_insisted_on_for_a_while() -> None:
    with only("triton"):
        assert use_triton(torch.zeros(1))
        with only("torch"):
            assert not use_triton(torch.zeros(1))
        assert use_triton(torch.zeros(1))
    assert not use_triton(torch.zeros(1))
