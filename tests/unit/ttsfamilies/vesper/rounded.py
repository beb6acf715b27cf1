"""What products of whole numbers make of a network, in torch: what compiled loops are held to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.integer_products_numba import LARGEST
from ttscommon.engine.nn import HalfLinear, integers_in


def round_products(module: nn.Module, *, narrow: bool = False) -> None:
    """Replace every halved layer inside. narrow: see `integers_in`."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, HalfLinear):
                setattr(parent, name, _Rounded(child, narrow))


class _Rounded(nn.Module):
    dtype = torch.float32

    def __init__(self, layer: HalfLinear, narrow: bool) -> None:
        super().__init__()
        product = integers_in(layer, narrow=narrow)
        tiles, pairs, columns, both = product.weight.shape
        whole = product.weight.transpose(0, 2, 1, 3).reshape(tiles * columns, pairs * both)
        self._weight = torch.from_numpy(whole * product.scale[:, None].astype("f8"))
        self._weight = self._weight[: layer.out_features, : layer.in_features]
        self._bias = torch.from_numpy(product.bias)[: layer.out_features]

    def forward(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-30)
        whole = torch.round(x * (LARGEST / largest)).double()
        made = whole @ self._weight.T * (largest.double() / LARGEST) + self._bias
        return made.float()
