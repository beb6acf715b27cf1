"""A decode step as functions of tensors with a row a stream: what a graph can capture.

Nothing here reads a value on the host or gives a shape that depends on one. How an id is drawn is
handed in.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsfamilies.base.lm.depth import CodeDraw
from ttsfamilies.qwen3_tts.net import FrameNet, TalkerNet
from ttsfamilies.qwen3_tts.prompt import NO_TEXT, Heard
from ttsfamilies.qwen3_tts.sampling import Prohibitions


def embed_positions(
    net: TalkerNet, text: Tensor, heard: Tensor, codes: Tensor, speaker: Tensor
) -> Tensor:
    """Inputs of prompt positions and of frames already made.

    text: [tokens] int64, NO_TEXT for none; heard: [tokens] int64, see prompt.Heard;
    codes: [tokens, codebooks] int64; speaker: [tokens, dim], read where heard is SPEAKER.
    Returns [tokens, dim].
    """
    said = net.embed_text(text.clamp(min=0))
    said = torch.where((text != NO_TEXT)[:, None], said, 0)
    kind, sound = heard[:, None], net.embed_sound(heard, codes)
    sound = torch.where(kind == Heard.SPEAKER, speaker.to(sound.dtype), sound)
    return said + torch.where(kind == Heard.NOTHING, 0, sound)


def choose_codes(
    net: FrameNet,
    never: Prohibitions,
    hidden: Tensor,
    seen: Tensor,
    made: Tensor,
    penalty: Tensor,
    pick: CodeDraw,
) -> tuple[Tensor, Tensor]:
    """The next frame's codes from the backbone's state [rows, dim].

    seen: [rows, codec vocabulary] bool, ids of codebook 0 chosen so far; made: [rows] int64, frames
    so far; penalty: [rows] float32. Returns logits of codebook 0 [rows, vocabulary], and codes
    [rows, codebooks] int64, of no frame where the first is the end.
    """
    logits = net.code0_logits(hidden)
    code0 = pick(logits, 0, never.rules(seen, made, penalty))
    return logits, torch.cat((code0[:, None], net.residuals(hidden, code0, pick)), 1)
