"""The decoder block of today's speech language models, for backbones, predictors and codecs.

Llama (Orpheus, CSM, Higgs), Qwen2 (CosyVoice 2), Qwen3 (Qwen3-TTS) and the transformers inside
Mimi-like codecs are this block with other switches. How attention is done, over which cache, is
the caller's business; so is the feed-forward network, if a family brings one of its own (experts).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.blocks import HeadRotation, add_norm, gelu, swiglu
from ttscommon.engine.kernels.choice import use_triton
from ttscommon.engine.kernels.few_rows import are_few, multiply
from ttscommon.engine.nn.blocks import RMSNorm
from ttscommon.engine.nn.linears import Float8Linear, WideLinear
from ttscommon.engine.nn.rope import Rope, RopeConfig

# (layer, q, k, v) -> attended. q and the result are [..., heads, head_dim], k and v
# [..., kv_heads, head_dim]; the function also stores k and v.
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
AttendLayer = Callable[[Tensor, Tensor, Tensor], Tensor]
# (layer, product, rotation) -> attended, of the joint product to queries, keys and values.
AttendProduct = Callable[[int, Tensor, HeadRotation], Tensor]

# What a block leaves to be added to the residual stream, and a factor of each of its channels.
Waiting = tuple[Tensor | None, Tensor | None]

_LINEARS: Final = (nn.Linear, Float8Linear)


@runtime_checkable
class AttendsProducts(Protocol):
    """An `Attend` that norms and rotates by itself, where a device has a kernel for all of it."""

    def of_product(self, layer: int, heads: Tensor, rotation: HeadRotation) -> Tensor:
        """[..., all heads, head_dim] as `rotation.shares` says -> [..., query heads, head_dim]."""


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and switches of a stack of blocks.

    fp32_qkv: the products to q, k and v are summed in float32 under narrower weights, and q, k, v
    stay float32: short sequences that are fed back many times need it.
    """

    dim: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    eps: float = 1e-6
    rope: RopeConfig = field(default_factory=RopeConfig)
    norm: Literal["rms", "layer"] = "rms"
    mlp: Literal["swiglu", "gelu", "gelu_tanh"] = "swiglu"
    qk_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    layer_scale: bool = False
    final_norm: bool = True
    fp32_qkv: bool = False

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError("query heads are a multiple of KV heads")
        if self.head_dim % 2:
            raise ValueError("rotation needs an even head_dim")


class Attention(nn.Module):
    """Projections, norms and rotation around an attention that is done elsewhere."""

    def __init__(self, c: DecoderConfig, rope: Rope) -> None:
        super().__init__()
        self.head_dim, self.fp32 = c.head_dim, c.fp32_qkv
        self.shares = (c.heads, c.kv_heads, c.kv_heads)
        self.rope = rope
        linear = WideLinear if c.fp32_qkv else nn.Linear
        self.qkv = linear(c.dim, sum(self.shares) * c.head_dim, bias=c.qkv_bias)
        self.out = nn.Linear(c.heads * c.head_dim, c.dim, bias=c.out_bias)
        self.q_norm = RMSNorm(c.head_dim, c.eps) if c.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(c.head_dim, c.eps) if c.qk_norm else nn.Identity()

    def keep_float32(self, where: torch.device | str) -> None:
        """After the model was cast: put back what `fp32_qkv` asks for on this device."""
        if self.fp32:
            norms = self.q_norm, self.k_norm
            for module in norms if WideLinear.multiplies_narrow(where) else (self.qkv, *norms):
                module.float()

    def queries(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """[..., dim] -> rotated q [..., heads, head_dim] and k, and v [..., kv_heads, head_dim]."""
        q, k, v = self.product(x).split(self.shares, -2)
        q, k = self.q_norm(q), self.k_norm(k)
        return self.rope.rotate(q, angles), self.rope.rotate(k, angles), v

    def product(self, x: Tensor) -> Tensor:
        """[..., dim] -> queries, keys and values [..., all heads, head_dim], as they come."""
        return self.qkv(_fed(x, self.qkv)).unflatten(-1, (-1, self.head_dim))

    def rotation(self, angles: tuple[Tensor, Tensor]) -> HeadRotation:
        """What fused kernels do to a product; angles: [n, head_dim / 2] each."""
        q, k = self.q_norm, self.k_norm
        if isinstance(q, RMSNorm) and isinstance(k, RMSNorm):
            return HeadRotation(self.shares, *angles, q.weight, k.weight, q.eps)
        return HeadRotation(self.shares, *angles)

    def normed_product(self, x: Tensor, norm: RMSNorm) -> Tensor:
        """As `product`, of few rows after a norm."""
        kind = torch.float32 if self.fp32 else None
        return _few(x, self.qkv, norm=norm, dtype=kind).unflatten(-1, (-1, self.head_dim))

    def finish(self, attended: Tensor) -> Tensor:
        """[..., heads, head_dim] -> [..., dim]."""
        return self.out(_fed(attended.flatten(-2), self.out))


def _fed(x: Tensor, layer: nn.Module) -> Tensor:
    """In the type of the layer's weights; a PackedLinear is fed float32, and others see to it."""
    return x.to(layer.weight.dtype) if isinstance(layer, nn.Linear) else x


def _few(
    x: Tensor,
    layer: nn.Module,
    *,
    norm: RMSNorm | None = None,
    added: Tensor | None = None,
    scale: nn.Module | None = None,
    gated: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """A linear layer of few rows [..., inputs], and what stands around it; see `multiply`."""
    assert isinstance(layer, _LINEARS)
    bias: Tensor | None = layer.bias
    out = multiply(
        *(x.flatten(0, -2), layer.weight, bias),
        norm=None if norm is None else norm.weight,
        eps=0.0 if norm is None else norm.eps,
        gated=gated,
        added=None if added is None else added.flatten(0, -2),
        factors=None if scale is None else _factors(scale),
        scales=layer.scale if isinstance(layer, Float8Linear) else None,
        dtype=dtype,
    )
    return out.view(*x.shape[:-1], -1)


class SwiGLU(nn.Module):
    """Gated feed-forward network (Shazeer, 2020); both halves of the rise in one product."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., dim]."""
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(nn.functional.silu(gate) * up)

    def fused(self, x: Tensor) -> Tensor:
        """As `forward`, the gate in one kernel."""
        return self.down(swiglu(self.gate_up(x)))


class GeluMLP(nn.Module):
    """The plain feed-forward network of Mimi's transformers. approximate: see torch's gelu."""

    def __init__(self, dim: int, hidden: int, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., dim]."""
        risen = self.up(x)
        if self.approximate == "none":
            return self.down(gelu(risen))
        return self.down(nn.functional.gelu(risen, approximate=self.approximate))


class Scale(nn.Module):
    """A learnt factor a channel on a residual (Touvron et al., 2021)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size]."""
        return x * self.weight


def _norm(c: DecoderConfig) -> nn.Module:
    return RMSNorm(c.dim, c.eps) if c.norm == "rms" else nn.LayerNorm(c.dim, c.eps)


def _mlp(c: DecoderConfig) -> nn.Module:
    if c.mlp == "swiglu":
        return SwiGLU(c.dim, c.hidden)
    return GeluMLP(c.dim, c.hidden, "tanh" if c.mlp == "gelu_tanh" else "none")


class DecoderBlock(nn.Module):
    """Pre-norm attention and a feed-forward network, each around a residual."""

    def __init__(self, c: DecoderConfig, rope: Rope, mlp: nn.Module | None = None) -> None:
        super().__init__()
        self.attention_norm = _norm(c)
        self.attention = Attention(c, rope)
        self.mlp_norm = _norm(c)
        self.mlp = _mlp(c) if mlp is None else mlp
        self.attention_scale = Scale(c.dim) if c.layer_scale else nn.Identity()
        self.mlp_scale = Scale(c.dim) if c.layer_scale else nn.Identity()

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        attend: AttendLayer,
        only: Tensor | None = None,
    ) -> Tensor:
        """[..., dim] -> [..., dim]; only: see Decoder.forward."""
        attended = attend(*self.attention.queries(self.attention_norm(x), angles))
        if only is not None:
            x, attended = x[only], attended[only]
        x = x + self.attention_scale(self.attention.finish(attended))
        return x + self.mlp_scale(self.mlp(self.mlp_norm(x)))

    def fused(
        self,
        x: Tensor,
        waiting: Waiting,
        angles: tuple[Tensor, Tensor],
        attend: Callable[[Tensor, HeadRotation], Tensor],
    ) -> tuple[Tensor, Waiting]:
        """The residual stream and what is still to be added to it, before and behind the block."""
        assert isinstance(self.mlp, SwiGLU)
        x, normed = _added_and_normed(x, waiting, self.attention_norm)
        attended = attend(self.attention.product(normed), self.attention.rotation(angles))
        waiting = self.attention.finish(attended), _factors(self.attention_scale)
        x, normed = _added_and_normed(x, waiting, self.mlp_norm)
        return x, (self.mlp.fused(normed), _factors(self.mlp_scale))

    def few(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        attend: Callable[[Tensor, HeadRotation], Tensor],
    ) -> Tensor:
        """As `forward`, of few rows: a kernel a product, with what stands before and behind it."""
        mlp, first, second = self.mlp, self.attention_norm, self.mlp_norm
        assert isinstance(mlp, SwiGLU)
        assert isinstance(first, RMSNorm)
        assert isinstance(second, RMSNorm)
        product = self.attention.normed_product(x, first)
        attended = attend(product, self.attention.rotation(angles)).flatten(-2)
        x = _few(attended, self.attention.out, added=x, scale=self.attention_scale, dtype=x.dtype)
        risen = _few(x, mlp.gate_up, norm=second, gated=True)
        return _few(risen, mlp.down, added=x, scale=self.mlp_scale)


def _factors(scale: nn.Module) -> Tensor | None:
    return scale.weight if isinstance(scale, Scale) else None


def _added_and_normed(x: Tensor, waiting: Waiting, norm: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(norm, RMSNorm)
    added, factors = waiting
    return add_norm(x, added, norm.weight, norm.eps, factors)


class Decoder(nn.Module):
    """A stack of blocks and the norm behind them."""

    def __init__(
        self, config: DecoderConfig, mlp: Callable[[int], nn.Module] | None = None
    ) -> None:
        """mlp: the feed-forward network of a layer, where it is none of the config's."""
        super().__init__()
        c = self.config = config
        self.rope = Rope(c.head_dim, c.rope)
        self.blocks = nn.ModuleList(
            DecoderBlock(c, self.rope, mlp(layer) if mlp else None) for layer in range(c.layers)
        )
        self.norm = _norm(c) if c.final_norm else nn.Identity()
        plain = mlp is None and c.final_norm and not c.rope.interleaved and c.rope.share == 1.0
        self._fusable = plain and c.norm == "rms" and c.mlp == "swiglu"

    def keep_float32(self, where: torch.device | str = "cpu") -> None:
        """After the model was cast: put back what the config wants in float32 on this device."""
        for block in self.blocks:
            assert isinstance(block, DecoderBlock)
            block.attention.keep_float32(where)

    def forward(
        self, x: Tensor, positions: Tensor, attend: Attend, only: Tensor | None = None
    ) -> Tensor:
        """[..., dim] at integer positions [...] -> hidden states [..., dim].

        only: [rows] int64, the positions of [tokens, dim] whose states are wanted; the last block
        then ends with its attention for others.
        """
        return self.turned(x, self.rope.angles(positions), attend, only)

    def turned(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        attend: Attend,
        only: Tensor | None = None,
    ) -> Tensor:
        """As `forward`, with the angles of the positions at hand: see Rope.angles."""
        if self._fuses(x):
            found = self._fused(x, angles, attend)
            return found if only is None else found[only]
        last = len(self.blocks) - 1
        for layer, block in enumerate(self.blocks):
            x = block(x, angles, partial(attend, layer), only if layer == last else None)
        return self.norm(x)

    def headed(
        self, x: Tensor, angles: tuple[Tensor, Tensor], attend: Attend, head: Tensor
    ) -> Tensor:
        """The last states of `turned`, by a head [outputs, dim].

        [rows, positions, dim] -> [rows, outputs].
        """
        if self._fuses(x) and self.multiplies(x[..., 0], *self.modules()) and head.is_contiguous():
            assert isinstance(self.norm, RMSNorm)
            last = self._few(x, angles, attend)[:, -1]
            return multiply(last, head, norm=self.norm.weight, eps=self.norm.eps)
        return nn.functional.linear(self.turned(x, angles, attend)[:, -1], head)

    def _fuses(self, x: Tensor) -> bool:
        return self._fusable and use_triton(x) and not torch.is_grad_enabled()

    def multiplies(self, rows: Tensor, *layers: nn.Module) -> bool:
        """Whether so many rows [...] are for `multiply`, on a device, and no adapters add to the
        products of these layers, which a kernel with more than a product would hide.
        """
        few = use_triton(rows) and are_few(rows.numel()) and not torch.is_grad_enabled()
        return few and not any(isinstance(m, _LINEARS) and m._forward_hooks for m in layers)

    def _few(self, x: Tensor, angles: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """The residual stream behind all blocks, of few rows."""
        cosines, sines = (a.flatten(0, -2) for a in angles)
        of_product = _of_product(attend)
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, DecoderBlock)
            x = block.few(x, (cosines, sines), partial(of_product, layer))
        return x

    def _fused(self, x: Tensor, angles: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """A residual is added where the next norm reads it, in the same kernel."""
        waiting: Waiting = (None, None)
        if self.multiplies(x[..., 0], *self.modules()):
            return _added_and_normed(self._few(x, angles, attend), waiting, self.norm)[1]
        cosines, sines = (a.flatten(0, -2) for a in angles)
        of_product = _of_product(attend)
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, DecoderBlock)
            x, waiting = block.fused(x, waiting, (cosines, sines), partial(of_product, layer))
        return _added_and_normed(x, waiting, self.norm)[1]


def _of_product(attend: Attend) -> AttendProduct:
    fused: object = attend
    if isinstance(fused, AttendsProducts):
        return fused.of_product

    def apart(layer: int, heads: Tensor, rotation: HeadRotation) -> Tensor:
        q, k, v = rotation.parts(heads)
        return attend(layer, rotation.queries(q), rotation.keys(k), v)

    return apart


def dense_attention(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> Tensor:
    """Grouped-query attention over keys at hand, in float32 at least.

    q: [..., queries, heads, head_dim]; k, v: [..., keys, kv_heads, head_dim].
    visible: bool, broadcast against [..., queries, keys]; None: every query sees all keys.
    Returns [..., queries, heads, head_dim] in v's type.
    """
    exact = torch.promote_types(q.dtype, torch.float32)
    kv_heads, head_dim = k.shape[-2:]
    grouped = q.unflatten(-2, (kv_heads, -1)).to(exact) * head_dim**-0.5
    scores = torch.einsum("...qhgd,...khd->...hgqk", grouped, k.to(exact))
    if visible is not None:
        scores = scores.masked_fill(~visible[..., None, None, :, :], float("-inf"))
    mixed = torch.einsum("...hgqk,...khd->...qhgd", scores.softmax(-1), v.to(exact))
    return mixed.flatten(-3, -2).to(v.dtype)
