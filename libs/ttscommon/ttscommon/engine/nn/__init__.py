"""Neural blocks shared by the model families. The only part of the library that needs torch."""

from ttscommon.engine.kernels.convnext import tail_after
from ttscommon.engine.nn.blocks import ConvNeXt, RMSNorm, TransformerBlock, causal_attention
from ttscommon.engine.nn.causal import CausalConv1d, CausalUpsample1d, steps_before
from ttscommon.engine.nn.decoder import (
    Attend,
    Decoder,
    DecoderBlock,
    DecoderConfig,
    dense_attention,
)
from ttscommon.engine.nn.exact import ROW_TILE, keep_one_order, pad_rows, padded_rows
from ttscommon.engine.nn.packed import HalfLinear, halve, integers_in
from ttscommon.engine.nn.rope import Llama3Scaling, LongScaling, Rope, RopeConfig, rope_table

# Not later: MKL decides at a process's first product.
keep_one_order()
