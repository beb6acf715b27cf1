"""One id a row, by penalty, prohibitions, top-k, top-p and keyed noise (the Gumbel maximum).

One definition, `sample`, and two ways to reach it faster: a kernel on a device, and on the CPU a
look at the parameters, which skips what they leave out. A row's draw depends on its own logits and
settings alone, on either way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import use_triton
from ttsfamilies.base.sampling.noise import Noise
from ttsfamilies.base.sampling.rules import NEVER, Rules, Settings, keep_mass, keep_top

# What one program of the kernel holds of a row; larger vocabularies are sampled by the twin.
MOST_IDS: Final = 8192
# On the CPU, sorting a whole vocabulary takes longer than the network that made it.
_WINDOW: Final = 64
# Noise for so many ids costs more than picking the rows that need any.
_WIDE: Final = 1024


def draw_ids(
    logits: Tensor, noise: Noise, draw: int, settings: Settings, rules: Rules | None = None
) -> tuple[Tensor, Tensor]:
    """Draw number `draw` of a step: [rows, vocabulary] -> ids [rows] int64, finite [rows] bool.

    draw: the codebook, or a negative number for what is of no codebook. `finite` is of the logits
    as they came; a row that is not draws any id. On a device nothing is read back to the host.
    """
    if use_triton(logits) and logits.shape[1] <= MOST_IDS:
        from ttsfamilies.base.sampling import draw_triton

        logits = logits if logits.stride(1) == 1 else logits.contiguous()
        return draw_triton.sample(logits, noise, draw, settings, rules)
    if not logits.is_cpu:
        return sample(logits, noise, draw, settings, rules)
    x = logits.float()
    return _ruled(x, noise, draw, settings, rules), x.isfinite().all(-1)


def draw_alone(
    logits: Tensor, noise: Noise, draw: int, settings: Settings, rules: Rules | None = None
) -> Tensor:
    """The ids of `draw_ids`, where another draw of the step says whether rows are finite."""
    if logits.is_cpu and not use_triton(logits):
        return _ruled(logits.float(), noise, draw, settings, rules)
    return draw_ids(logits, noise, draw, settings, rules)[0]


def _ruled(x: Tensor, noise: Noise, draw: int, settings: Settings, rules: Rules | None) -> Tensor:
    allowed = x if rules is None else rules.applied(x)
    return _on_cpu(allowed, noise, draw, settings)


def sample(
    logits: Tensor, noise: Noise, draw: int, settings: Settings, rules: Rules | None = None
) -> tuple[Tensor, Tensor]:
    """What `draw_ids` means, in plain torch; nothing is read back to the host."""
    x = logits.float()
    finite = x.isfinite()
    allowed = finite
    if rules is not None:
        x, allowed = rules.punished(x), finite & ~rules.forbidden(x)
    x = _limited(x.masked_fill(~allowed, NEVER), settings)
    noisy = x + noise.gumbel(draw, x.shape[1]) * settings.temperature[:, None]
    return noisy.argmax(-1), finite.all(-1)


def _limited(x: Tensor, settings: Settings) -> Tensor:
    if settings.top_k is not None:
        x = keep_top(x, settings.top_k)
    if settings.top_p is not None:
        x = keep_mass(x, settings.temperature, settings.top_p)
    return x


def _on_cpu(x: Tensor, noise: Noise, draw: int, settings: Settings) -> Tensor:
    """Greedy rows, such as those of padding, need no noise."""
    warm = settings.temperature > 0.0
    if bool(warm.all()) or (bool(warm.any()) and x.shape[1] < _WIDE):
        return _warm(x, noise, draw, settings)
    chosen, rows = x.argmax(-1), warm.nonzero()[:, 0]
    if len(rows):
        chosen[rows] = _warm(x[rows], noise.rows(rows), draw, settings.rows(rows))
    return chosen


def _warm(x: Tensor, noise: Noise, draw: int, settings: Settings) -> Tensor:
    if settings.top_p is None or _keeps_all(settings.top_p, settings.temperature):
        return choose(x, noise.gumbel(draw, x.shape[1]), settings.temperature, settings.top_k)
    return draw_among(x, noise, settings, partial(_among_largest, draw=draw))


def _keeps_all(top_p: Tensor, temperature: Tensor) -> bool:
    """A greedy row, such as one of padding, draws its largest id whatever its mass is cut to."""
    return bool(((top_p >= 1.0) | (temperature <= 0.0)).all())


def choose(
    logits: Tensor, gumbel: Tensor, temperature: Tensor, top_k: Tensor | None = None
) -> Tensor:
    """A draw without top-p, with its noise at hand: [rows, vocabulary] each -> [rows] int64.

    Most draws are among the top k before that is asked for, and finding those takes long.
    """
    noisy = gumbel * temperature[:, None]
    chosen = (logits + noisy).argmax(-1)
    if top_k is None or _among(logits, chosen, top_k):
        return chosen
    return (_kept(logits, top_k) + noisy).argmax(-1)


def _kept(x: Tensor, top_k: Tensor) -> Tensor:
    """`keep_top` without sorting all ids: the largest k of any row are enough."""
    most = int(top_k.max())
    if not 0 < most < x.shape[1]:
        return keep_top(x, top_k)
    least = x.topk(most, -1).values.gather(1, top_k.clamp(min=1)[:, None] - 1)
    return x.masked_fill(x < least.masked_fill(top_k[:, None] < 1, NEVER), NEVER)


def _among(logits: Tensor, chosen: Tensor, top_k: Tensor) -> bool:
    above = (logits > logits.gather(1, chosen[:, None])).sum(-1)
    return bool(((top_k < 1) | (above < top_k)).all())


def _among_largest(x: Tensor, noise: Noise, settings: Settings, window: int, draw: int) -> Tensor:
    values, ids = x.topk(window, -1)
    noisy = _limited(values, settings) + noise.gumbel(draw, ids) * settings.temperature[:, None]
    return ids.gather(1, noisy.argmax(-1, keepdim=True))[:, 0]


# Draws among the likeliest ids, without sorting all of them where few can be meant.


# (logits, noise, settings, how many of the likeliest ids are looked at) -> ids
Among = Callable[[Tensor, Noise, Settings, int], Tensor]


def draw_among(x: Tensor, noise: Noise, settings: Settings, among: Among) -> Tensor:
    """Ids [rows] int64 that `among` draws of logits [rows, ids].

    Rows with a small top k look at a window, which holds that and ties at its edge as well. Which
    way a row goes is its own affair, and nothing is read back on a device.
    """
    if not x.is_cpu or settings.top_k is None:
        return among(x, noise, settings, x.shape[1])
    few, drawn = min(_WINDOW, x.shape[1]), torch.empty(len(x), dtype=torch.int64)
    narrow = (settings.top_k > 0) & (settings.top_k < few)
    for chosen, window in ((narrow, few), (~narrow, x.shape[1])):
        index = chosen.nonzero()[:, 0]
        if len(index):
            own = noise.rows(index), settings.rows(index)
            drawn[index] = among(x[index], *own, window)
    return drawn


def draw_unscaled(logits: Tensor, noise: Noise, draw: int, settings: Settings) -> Tensor:
    """One id a row, of those that top-k and top-p leave of logits as they are; the temperature
    counts behind them (Fish Audio's order). Of the likeliest ids those remain whose shares, their
    own included, add up to no more than top-p; the first one always does.
    """

    def among(x: Tensor, noise: Noise, settings: Settings, window: int) -> Tensor:
        assert settings.top_k is not None
        assert settings.top_p is not None
        values, ids = x.topk(window, -1)
        shares = (values - x.logsumexp(-1, keepdim=True)).exp()
        place = torch.arange(window, device=x.device)
        most = settings.top_k.masked_fill(settings.top_k < 1, window)[:, None]
        out = (shares.cumsum(-1) > settings.top_p[:, None]) | (place >= most)
        noisy = values + noise.gumbel(draw, ids) * settings.temperature[:, None]
        chosen = noisy.masked_fill(out & (place > 0), NEVER).argmax(-1, keepdim=True)
        return ids.gather(1, chosen)[:, 0]

    return draw_among(logits.float(), noise, settings, among)


# Repetition-aware sampling (VALL-E 2: Chen et al., 2024), as CosyVoice has it.
#
# A draw from the nucleus; where that id is among the last few, it is out, and another is drawn
# from all ids. The nucleus holds the likeliest ids until their share of all reaches top-p, but no
# more than top-k of them.


NUCLEUS, AGAIN = 0, 1


def draw_unrepeated(
    logits: Tensor, noise: Noise, settings: Settings, recent: Tensor, forbidden: Tensor
) -> tuple[Tensor, Tensor]:
    """Ids [rows] int64 and whether each row's logits are finite [rows] bool.

    logits: [rows, ids]. recent: [rows, window] int64, ids drawn last. forbidden: [rows, ids] bool,
    as seen before any of it. A row of temperature 0 takes the likeliest id, repeated or not.
    Draws are numbers NUCLEUS and AGAIN of the step.
    """
    x = logits.float()
    finite = x.isfinite().all(-1)
    x = x.masked_fill(forbidden, NEVER)
    first = draw_among(x, noise, settings, _among_likeliest)
    repeated = (recent == first[:, None]).any(-1) & (settings.temperature > 0.0)
    left = x.scatter(1, first[:, None], NEVER)
    noisy = left + noise.gumbel(AGAIN, x.shape[1]) * settings.temperature[:, None]
    return torch.where(repeated, noisy.argmax(-1), first), finite


def _among_likeliest(x: Tensor, noise: Noise, settings: Settings, window: int) -> Tensor:
    assert settings.top_k is not None
    assert settings.top_p is not None
    values, ids = x.topk(window, -1)
    hot = settings.temperature.clamp(min=1e-9)[:, None]
    share = (values / hot - (x / hot).logsumexp(-1, keepdim=True)).exp()
    before = share.cumsum(-1) - share
    place = torch.arange(window, device=x.device)
    most = settings.top_k.masked_fill(settings.top_k < 1, window)[:, None]
    out = (before >= settings.top_p[:, None]) | (place >= most)
    noisy = values + noise.gumbel(NUCLEUS, ids) * settings.temperature[:, None]
    return ids.gather(1, noisy.masked_fill(out & (place > 0), NEVER).argmax(-1, keepdim=True))[:, 0]
