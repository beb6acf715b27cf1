"""Neural blocks shared by the model families. The only part of the library that needs torch."""

from ttscommon.engine.kernels.convnext import tail_after
from ttscommon.engine.nn.causal import CausalConv1d, CausalUpsample1d, steps_before
from ttscommon.engine.nn.conv import ConvNeXt
from ttscommon.engine.nn.decoder import (
    Attend,
    Decoder,
    DecoderBlock,
    DecoderConfig,
    dense_attention,
)
from ttscommon.engine.nn.exact import keep_one_order
from ttscommon.engine.nn.half import HalfLinear, halve, integers_in
from ttscommon.engine.nn.norm import RMSNorm
from ttscommon.engine.nn.rope import (
    Llama3Scaling,
    LongScaling,
    Rope,
    RopeConfig,
    apply_rope,
    rope_table,
)
from ttscommon.engine.nn.rows import ROW_TILE, pad_rows, padded_rows
from ttscommon.engine.nn.transformer import TransformerBlock, causal_attention

# Not later: MKL decides at a process's first product.
keep_one_order()

__all__ = [
    "ROW_TILE",
    "Attend",
    "CausalConv1d",
    "CausalUpsample1d",
    "ConvNeXt",
    "Decoder",
    "DecoderBlock",
    "DecoderConfig",
    "HalfLinear",
    "Llama3Scaling",
    "LongScaling",
    "RMSNorm",
    "Rope",
    "RopeConfig",
    "TransformerBlock",
    "apply_rope",
    "causal_attention",
    "dense_attention",
    "halve",
    "integers_in",
    "keep_one_order",
    "pad_rows",
    "padded_rows",
    "rope_table",
    "steps_before",
    "tail_after",
]
