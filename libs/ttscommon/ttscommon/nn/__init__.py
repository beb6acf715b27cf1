"""Neural blocks shared by the model families. The only part of the library that needs torch."""

from ttscommon.nn.conv import ConvNeXt, tail_after
from ttscommon.nn.half import HalfLinear, halve
from ttscommon.nn.norm import RMSNorm
from ttscommon.nn.rope import apply_rope, rope_table
from ttscommon.nn.transformer import TransformerBlock, causal_attention

__all__ = [
    "ConvNeXt",
    "HalfLinear",
    "RMSNorm",
    "TransformerBlock",
    "apply_rope",
    "causal_attention",
    "halve",
    "rope_table",
    "tail_after",
]
