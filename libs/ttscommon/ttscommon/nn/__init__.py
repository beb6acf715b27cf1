"""Neural blocks shared by the model families. The only part of the library that needs torch."""

from ttscommon.nn.conv import ConvNeXt, tail_after
from ttscommon.nn.norm import RMSNorm
from ttscommon.nn.rope import apply_rope, rope_table

__all__ = ["ConvNeXt", "RMSNorm", "apply_rope", "rope_table", "tail_after"]
