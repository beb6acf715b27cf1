"""One decode step as a function of tensors with a row a stream: what a graph can capture.

Nothing here reads a value on the host or gives a shape that depends on one. How attention reads
the backbone's cache, and how an id is drawn, is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttscommon.engine.nn import Attend
from ttsfamilies.base.lm.depth import CodeDraw
from ttsfamilies.qwen3_tts.net import FrameNet, TalkerNet
from ttsfamilies.qwen3_tts.prompt import NO_TEXT, Heard
from ttsfamilies.qwen3_tts.sampling import Prohibitions


@dataclass(frozen=True)
class History:
    """What a stream's slot keeps on the device between steps.

    codes: [rows, codebooks] int64, the frame made last (anything before the first);
    seen: [rows, codec vocabulary] bool, ids of codebook 0 chosen so far;
    made: [rows] int64, how many.
    """

    codes: Tensor
    seen: Tensor
    made: Tensor


@dataclass(frozen=True)
class Frame:
    """A step's outcome.

    ended: [rows] bool, codebook 0 is the end and `history.codes` no frame;
    bad: [rows] bool, the network's output is not finite.
    """

    history: History
    ended: Tensor
    bad: Tensor


def new_history(net: TalkerNet, rows: int) -> History:
    """The state of streams that have made no frame."""
    c, device = net.config.talker_config, net.codec.weight.device
    return History(
        torch.zeros(rows, c.codebooks, dtype=torch.int64, device=device),
        torch.zeros(rows, c.vocab_size, dtype=torch.bool, device=device),
        torch.zeros(rows, dtype=torch.int64, device=device),
    )


def heard_so_far(net: TalkerNet, codes: Tensor) -> History:
    """The state of one stream that goes on behind frames [frames, codebooks], at least one."""
    history = new_history(net, 1)
    history.codes[0] = codes[-1]
    history.seen[0, codes[:, 0]] = True
    history.made[0] = len(codes)
    return history


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


def make_frame(
    net: FrameNet,
    never: Prohibitions,
    hidden: Tensor,
    history: History,
    penalty: Tensor,
    pick: CodeDraw,
) -> Frame:
    """Choose the codes of the next frame from the backbone's state [rows, dim]."""
    raw = net.code0_logits(hidden)
    code0 = pick(raw, 0, never.rules(history.seen, history.made, penalty))
    codes = torch.cat((code0[:, None], net.residuals(hidden, code0, pick)), 1)
    seen = history.seen.scatter(1, code0[:, None], True)
    bad = ~torch.isfinite(raw).all(-1)
    return Frame(History(codes, seen, history.made + 1), code0 == never.eos, bad)


def decode(
    net: TalkerNet,
    never: Prohibitions,
    history: History,
    text: Tensor,
    positions: Tensor,
    attend: Attend,
    penalty: Tensor,
    pick: CodeDraw,
) -> Frame:
    """The frame after `history.codes`.

    text: [rows] int64, this step's text token; positions: [rows] int64, where its input stands in
    the backbone's cache; penalty: [rows] float32.
    """
    hidden = net.hidden(net.step_input(history.codes, text), positions, attend)
    return make_frame(net, never, hidden, history, penalty, pick)
