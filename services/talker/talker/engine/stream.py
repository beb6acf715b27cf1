"""One stream in the engine: what is in flight, what was sent, and its listener's playback."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.fields import Arrays, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.parts import Parts
from ttsfamilies.base.talker.streams import Caught, CutShort, Plan, Taken

UNACKNOWLEDGED_CHUNKS: Final = 8
# A family that can do without late text does so when the listener has no more than this.
DRY_S: Final = 0.25
# One who has as much waits for frames that may be part of a runaway.
PATIENT_S: Final = 0.5
# Of a stream whose listener does not hear it as it is made: more than any other has, and the same
# for all of them, so that none takes another's place in the cache.
OFFLINE_SLACK_S: Final = 1e6


Event = Taken | CutShort | Finished | Failed


@dataclass(eq=False, slots=True)
class Stream:
    """A request inside the engine. It is its own scheduling candidate and its own claim on blocks.

    `generation` counts evictions: what was launched before the last one does not count any more.
    `ahead`: sampling launches of this generation that are in flight; `drafting`: one of them may
    gain more than a frame, and what follows it is not known yet. `rest`: what is left of a prompt
    that was cut. `final`: all of its text has been fed. `planned`, `slack_s` and `waited_s` are of
    the current turn. `launched_s`, `prefilled_s`: when its first launch began, and when its first
    prompt was computed. `fed_s`: when text last came that it waited for. `lacking`: frames that its
    first chunk still lacks, 0 once it was sent. sunk: see Claim. lag_frames: see ModelSpec. sought:
    the planned sequence may begin with what others computed. successor: another talker began it.
    caught: runaways that it has counted.
    """

    request: SpeechRequest
    model: Parts
    frame_rate_hz: float
    arrived_s: float
    starved_s: float
    final: bool = False
    slot: int = -1
    generation: int = 0
    ahead: int = 0
    drafting: bool = False
    planned: Plan | None = None
    remainder: Plan | None = None
    rest: Plan | None = None
    slack_s: float = 0.0
    waited_s: float = 0.0
    ready_since_s: float | None = None
    launched_s: float | None = None
    prefilled_s: float | None = None
    playback_start_s: float | None = None
    first_sent_s: float | None = None
    sent_frames: int = 0
    sent_chunks: int = 0
    last_frames: int = 0
    lacking: int = 0
    sunk: int = 0
    lag_frames: int = 0
    sought: bool = False
    successor: bool = False
    caught: int = 0
    fed_s: float = -math.inf
    sends_left: int = UNACKNOWLEDGED_CHUNKS
    key: str = field(init=False)
    priority: int = field(init=False)
    offline: bool = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.request.request_id
        self.priority = self.request.priority
        self.offline = self.request.offline
        self.sent_frames = self.model.frames
        self.successor = self.sent_frames > 0

    @property
    def startup(self) -> bool:
        """Nothing of it was sent yet, by this talker or another, and a listener waits for it."""
        return not (self.sent_frames or self.offline)

    def needs(self, slack_s: float, now: float) -> bool:
        """Whether a listener of it has less than that, and it computes, or could. For the turn
        that it was planned in.
        """
        computes = self.planned is not None or self.ahead > 0 or self.drafting
        return not self.offline and computes and self.slack_at(now) < slack_s

    @property
    def branches(self) -> int:
        """See TalkerStream."""
        return self.model.branches

    @property
    def positions(self) -> int:
        """Of all branches."""
        plan = self.planned
        return 0 if plan is None else plan.work or plan.count * self.model.branches

    @property
    def whole(self) -> bool:
        """See Plan."""
        return self.planned is not None and self.planned.whole

    @property
    def bulk(self) -> int:
        """Positions that a segment's prompt still has before its first frame, in all its steps; or
        any other that takes several.
        """
        plan = self.planned
        if plan is None or plan.decode or (plan.grain == 1 and self.remainder is None):
            return 0
        return self.last + 1 - plan.start

    @property
    def end(self) -> int:
        return 0 if self.planned is None else self.planned.end

    @property
    def starved(self) -> bool:
        return self.waited_s >= self.starved_s

    def plan(self, now: float, most: int, limit: int) -> bool:
        """Whether it could step now. Decides on what: at most `most` positions of all branches.

        Raises TextTooLong for a sequence of more than `limit` positions.
        """
        able = self.sends_left > 0 and not self.drafting
        self.slack_s = self.slack_at(now)
        dry = self.first_sent_s is not None and self.slack_s < DRY_S
        plan = (self.rest or self.model.plan(self.ahead, dry=dry)) if able else None
        if plan is None:
            self.planned = self.ready_since_s = None
            return False
        if plan.end > limit:
            message = f"an utterance needs {plan.end} of {limit} positions: split the text"
            raise TextTooLong(message, param="input")
        most //= self.model.branches
        fits = max(plan.count, plan.work) <= most
        self.planned, self.remainder = (plan, None) if fits else plan.cut(most)
        if self.ready_since_s is None:
            self.ready_since_s = now
        self.waited_s = 0.0 if self.offline else now - self.ready_since_s
        return True

    @property
    def last(self) -> int:
        """The last position that is planned, in this turn or later."""
        whole = self.remainder or self.planned
        return 0 if whole is None else whole.end - 1

    def begin_at(self, held: int, most: int) -> None:
        """The planned sequence begins behind `held` positions, which are cached already."""
        if held:
            self.planned, self.remainder = Plan(held, self.last + 1 - held).cut(
                most // self.branches
            )

    @property
    def draftable(self) -> bool:
        """Whether the planned step may draft frames: everything before it is known. With a second
        branch none does.
        """
        plan = self.planned
        if plan is None or self.ahead or self.branches > 1:
            return False
        return (plan.decode or plan.begins) and not plan.certain

    @property
    def begins(self) -> bool:
        """See Plan."""
        return self.planned is not None and self.planned.begins

    def widen(self, width: int, limit: int, rounds: int) -> None:
        """Have the planned step try to gain `width` frames in each of so many rounds, of `limit`
        positions in all.
        """
        assert self.planned is not None
        self.planned = self.planned.widened(width, limit, rounds)

    def slack_at(self, now: float) -> float:
        """Playback left at the listener; before the first sound, time counts from its sending."""
        if self.offline:
            return OFFLINE_SLACK_S
        start = self.playback_start_s if self.playback_start_s is not None else self.first_sent_s
        if start is None:
            return 0.0
        return start + max(0, self.sent_frames - self.lag_frames) / self.frame_rate_hz - now

    def launched(self, now: float) -> None:
        """The planned positions are being computed."""
        assert self.planned is not None
        plan = self.planned
        self.drafting = plan.decode and plan.count > 1 and not plan.certain
        self.launched_s = now if self.launched_s is None else self.launched_s
        self.rest = self.remainder
        self.ahead += self.rest is None
        self.ready_since_s = None

    def accept(self, cached: int, frames: Arrays, ended: bool, now: float) -> Sequence[Caught]:
        """Take a launch's result; returns runaways that it showed. Launches behind one of these,
        or behind one that ended the sequence, mean nothing.
        """
        self.prefilled_s = now if self.prefilled_s is None else self.prefilled_s
        self.ahead -= 1
        self.drafting = False
        self.model.accept(cached, frames, ended)
        self.sunk = 0 if rows(frames) else self.sunk + 1
        new = self.model.caught[self.caught :]
        self.caught += len(new)
        if ended or new:
            self._restart()
        return new

    def evict(self) -> None:
        """Cache and slot state are gone, and with them whatever is in flight."""
        self._restart()
        self.model.evict()

    def _restart(self) -> None:
        self.generation += 1
        self.ahead, self.drafting, self.rest, self.sunk = 0, False, None, 0

    def playback(self, start_s: float) -> None:
        """Playback of the request's first sample was, or would have been, at `start_s`."""
        self.playback_start_s = start_s

    def acknowledge(self) -> None:
        """A chunk was taken over by the bus."""
        self.sends_left += 1

    def feed(self, units: Sequence[Any], *, final: bool) -> None:
        """Take later text; after `final` there is no more."""
        self.final = self.final or final
        self.model.feed(units, final=final)

    def due(self, sizes: ChunkSizes, now: float, busy: float) -> int:
        """How many pending frames to send now, 0 to wait for more; see ChunkSizes."""
        whole = self.model.pending
        if not whole or self.sends_left < 1:
            return 0
        pending = whole - self._kept_back(now)
        if self.sent_chunks:
            size = sizes.next(self.last_frames, self.slack_at(now) * self.frame_rate_hz, busy)
        else:
            size = sizes.first(busy, self.request.headroom_s * self.frame_rate_hz)
            self.lacking = max(0, size - pending)
        if pending >= size:
            return min(pending, sizes.most(busy))
        return whole if self._dry else 0

    def _kept_back(self, now: float) -> int:
        """Frames that wait for a verdict: they may be drawn again.

        Never of the first sound, and not from a listener who has little left. A successor waits in
        any case: its predecessor may have had the listener's patience, and drawn again.
        """
        if not (suspected := self.model.suspected) or self.startup:
            return 0
        return suspected if self.successor or self.slack_at(now) >= PATIENT_S else 0

    @property
    def waits_for_text(self) -> bool:
        """All of its text is spoken and sent, and only more text gives it anything to do."""
        if self.final or self.ahead or self.rest is not None or self.model.pending:
            return False
        return self.model.plan(0, dry=True) is None

    @property
    def prefill(self) -> tuple[float, float] | None:
        """See Taken; None once a chunk was sent."""
        if self.sent_chunks or self.launched_s is None or self.prefilled_s is None:
            return None
        return self.launched_s, self.prefilled_s

    @property
    def over(self) -> bool:
        """All of it was sent."""
        return self.model.done and not self.model.pending

    @property
    def _dry(self) -> bool:
        """No frame will come before more text does, if any does."""
        if self.final or self.ahead:
            return self.model.done
        return self.model.plan(0) is None

    def sent(self, frames: int, now: float) -> bool:
        """Account for a chunk; whether it was the first."""
        first = self.first_sent_s is None
        if first:
            self.first_sent_s = now - self.sent_frames / self.frame_rate_hz
        self.sent_frames += frames
        self.sent_chunks += 1
        self.last_frames, self.lacking = frames, 0
        self.sends_left -= 1
        return first
