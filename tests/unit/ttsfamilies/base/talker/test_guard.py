"""Signs of runaways, and the guard that draws again."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pytest

from talker.engine.stream import Stream
from tests.unit.ttsfamilies.chatterbox.tiny import tiny as chatterbox
from tests.unit.ttsfamilies.csm.tiny import tiny as csm
from tests.unit.ttsfamilies.kyutai_tts.tiny import tiny as kyutai_tts
from tests.unit.ttsfamilies.pocket_tts.tiny import tiny as pocket_tts
from tests.unit.ttsfamilies.runaways import UTTERANCE, Forgetful, lost, standing
from tests.unit.ttsfamilies.test_conformance import Bench, Heard, request, same
from ttscommon.engine.runtime import Finished
from ttscommon.wire.fields import SILENT, Arrays, concatenate, cut, rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Pause, Piece, Text
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.guard import LEFT, REDRAW, RunawaySigns, Seen, Sign, Stall, Watch
from ttsfamilies.base.talker.lmstream import letters, longest_s
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.base.talker.streams import CutShort, other_seed

RATE_HZ = 10.0


def found(
    codes: Sequence[int] = (),
    *,
    reached: Sequence[int] = (),
    first: int = 0,
    budget: float = math.inf,
    early: bool = False,
) -> Sign | None:
    watch = Watch(RunawaySigns(Stall(4.0, 4)), RATE_HZ)
    frames = first + max(len(codes), len(reached) - first)
    return watch.find(Seen(frames, first, codes, reached, budget), early=early)


def test_speech_shows_none() -> None:
    codes = [(7 * i * i) % 101 for i in range(200)]
    reached = [i // 2 for i in range(200)]
    assert found(codes, reached=reached, budget=300) is None
    assert found(codes, reached=reached, budget=300, early=True) is None


def test_a_code_that_stays_is_a_drone_after_four_seconds_and_suspect_after_one() -> None:
    speech = list(range(30))  # whose last code is the second of two that a drone may have
    assert found([*speech, *[50] * 8], early=True) is None
    assert found([*speech, *[50] * 9], early=True) == "still"
    assert found([*speech, *[50] * 38]) is None
    assert found([*speech, *[50] * 39]) == "still"


@pytest.mark.parametrize("period", [3, 7, 15])
def test_codes_that_repeat_are_a_loop(period: int) -> None:
    loop = [*range(50, 50 + period)] * 20
    assert found([*range(30), *loop[: period + 40]]) == "repeat"
    assert found([*range(30), *loop[: period + 39]]) is None


def test_a_longer_period_is_no_loop() -> None:
    assert found([*range(16)] * 20) is None


def test_a_pointer_that_stands_still_is_a_stall() -> None:
    moving, standing = [*range(20)], [20] * 60
    assert found(reached=[*moving, *standing][:55]) is None
    assert found(reached=[*moving, *standing][:58]) == "stall"
    assert found(reached=[*moving, *standing][:40], early=True) == "stall"


def test_nothing_before_a_redraw_is_a_sign_of_it() -> None:
    standing = [*range(20), *[20] * 60]
    assert found(reached=standing, first=50) is None
    assert found([5] * 39, first=50) is None


def test_a_budget_is_suspect_at_three_quarters_and_a_redraw_has_two_seconds_more() -> None:
    assert found(range(75), budget=100, early=True) == "budget"
    assert found(range(99), budget=100) is None
    assert found(range(100), budget=100) == "budget"
    assert found(range(10), first=95, budget=100, early=True) == "budget"
    assert found(range(10), first=95, budget=100) is None
    assert found(range(20), first=95, budget=100) == "budget"


def test_texts_are_weighed_as_they_are_read() -> None:
    assert letters("one two") < letters("1234567")
    assert letters("世界你好") > letters("word")
    assert longest_s(50) - longest_s(0) == 2 * (longest_s(50, 2.0) - longest_s(0, 2.0))


# Runaways are caught, drawn again from the last good frame, and left; successors do the same.


ONE: Final = "A text of thirty characters..."
GREEDY: Final = Sampling(temperature=0.0)


def seed_that(*loses: bool) -> int:
    """One whose draws of the first utterance lose the text, or not, in this order."""
    wanted = list(loses)
    tried = range(1000)
    return next(
        s for s in tried if [lost(other_seed(s, i), 0) for i in range(len(loses))] == wanted
    )


ENDS: Final = seed_that(False)
SAVED: Final = seed_that(True, False)
SAVED_LATE: Final = seed_that(True, True, False)
LOSES: Final = seed_that(True, True, True)


def speak(
    asked: SpeechRequest,
    family: Family | None = None,
    restored: Arrays | None = None,
    pieces: Sequence[Piece] = (),
) -> Heard:
    bench = Bench(family or ServedFamily(Forgetful()))
    if pieces:
        asked = request(text="", text_final=False, seed=asked.seed)
    heard = bench.open(asked, restored)
    if pieces:
        bench.feed("r", *pieces, final=True)
    bench.run()
    assert isinstance(heard.end, Finished), heard.end
    return heard


def runaway(since_s: float = 0.0, restored: Arrays | None = None) -> tuple[Bench, Heard, Stream]:
    """A runaway that has a slot, and whose listener began so long ago."""
    bench = Bench(ServedFamily(Forgetful()))
    heard = bench.open(request(text=ONE, seed=LOSES), restored)
    while (stream := bench.engine._slots.get("r")) is None:
        bench.engine.step()
    stream.playback_start_s = -since_s
    return bench, heard, stream


def draws(heard: Heard) -> list[int]:
    """Of each frame."""
    found: list[int] = (heard.arrays[REDRAW] & (LEFT - 1)).tolist()
    return found


def test_what_does_not_run_away_is_as_without_a_guard() -> None:
    heard = speak(request(text=ONE, seed=ENDS))
    plain = speak(request(text=ONE, seed=ENDS), Forgetful())
    assert not heard.arrays[REDRAW].any()
    same({name: heard.arrays[name] for name in plain.arrays}, plain.arrays)
    assert heard.cut_short is None


@pytest.mark.parametrize(("seed", "redraws"), [(SAVED, 1), (SAVED_LATE, 2)])
def test_a_runaway_is_drawn_again_until_it_ends(seed: int, redraws: int) -> None:
    heard = speak(request(text=ONE, seed=seed))
    assert set(draws(heard)) == set(range(redraws + 1)) - ({redraws} if redraws else set())
    assert heard.cut_short is None
    assert rows(heard.arrays) < 4 * UTTERANCE


def test_after_two_redraws_the_utterance_is_left_and_the_next_goes_on() -> None:
    bench, alone, _ = runaway()
    bench.run()
    counted = bench.engine.metrics.runaways
    came = [counted.labels("still", came)._value.get() for came in ("drawn_again", "left")]
    assert came == [2, 1]
    heard = speak(request(text=2 * ONE, seed=LOSES))
    assert set(draws(alone)) == {0, 1, 2}
    assert alone.cut_short == heard.cut_short == CutShort()
    begun = rows(alone.arrays)
    same(cut(heard.arrays, 0, begun), alone.arrays)
    assert heard.arrays[REDRAW][begun] == LEFT
    assert heard.arrays["of"][begun] == 1


def test_at_temperature_0_nothing_is_drawn_again() -> None:
    heard = speak(request(text=ONE, seed=SAVED, sampling=GREEDY))
    assert set(draws(heard)) == {0}
    assert heard.cut_short is not None


def test_a_request_may_do_without() -> None:
    bench = Bench(ServedFamily(Forgetful()))
    bench.open(request(text=ONE, seed=LOSES, runaway_guard=False))
    for _ in range(600):
        bench.engine.step()
    heard = bench.heard["r"]
    assert heard.end is None
    assert rows(heard.arrays) > 400
    assert not heard.arrays[REDRAW].any()


def test_a_successor_says_the_same_behind_any_frame() -> None:
    """In the middle of a redraw, before one, behind what was left."""
    whole = speak(request(text=2 * ONE, seed=LOSES)).arrays
    for at in range(1, rows(whole), 29):
        heard = speak(request(text=2 * ONE, seed=LOSES), restored=cut(whole, 0, at))
        same(concatenate([cut(whole, 0, at), heard.arrays]), whole)
        assert heard.cut_short is not None


def test_a_log_of_a_talker_without_a_guard_is_gone_on_with() -> None:
    whole = speak(request(text=ONE, seed=LOSES)).arrays
    before = {name: array[:20] for name, array in whole.items() if name != REDRAW}
    heard = speak(request(text=ONE, seed=LOSES), restored=before)
    same(heard.arrays, cut(whole, 20, rows(whole)))


def test_a_part_that_was_left_is_followed_by_its_silence_and_the_next() -> None:
    def family() -> Family:
        return ServedFamily(Forgetful())

    pieces: list[Piece] = [Text(ONE), Pause(1.0), Text(ONE)]
    heard = speak(request(seed=LOSES), family(), pieces=pieces)
    whole, silent = heard.arrays, heard.arrays[SILENT]
    alone = rows(speak(request(text=ONE, seed=LOSES)).arrays)
    assert np.flatnonzero(silent).tolist() == list(range(alone, alone + 25))
    assert rows(whole) == 2 * alone + 25
    for at in (20, alone, alone + 1):
        restored = cut(whole, 0, at)
        again = speak(request(seed=LOSES), family(), restored=restored, pieces=pieces)
        same(concatenate([restored, again.arrays]), whole)
        assert again.cut_short is not None


def test_frames_under_suspicion_wait_while_the_listener_can_and_the_first_do_not() -> None:
    sent = []
    for since_s in (0.0, 60.0):
        bench, _, stream = runaway(since_s)
        while not stream.sent_chunks:
            bench.engine.step()
        assert stream.sent_frames == 2
        while not stream.caught:
            bench.engine.step()
        sent.append(stream.sent_frames)
    patient, impatient = sent
    assert 2 < patient <= 36  # a second of the drone is known then
    assert impatient > 60


def test_a_family_s_own_limit_without_an_end_is_a_runaway() -> None:
    asked = request(text=ONE, seed=LOSES)
    heard = speak(asked, ServedFamily(Forgetful(most=20)))
    assert heard.cut_short is not None
    assert rows(heard.arrays) == 20
    asked = request(text=ONE, seed=LOSES, sampling=Sampling(max_new_tokens=20))
    assert speak(asked, ServedFamily(Forgetful(most=20))).cut_short is None


@pytest.mark.parametrize("make", [csm, pocket_tts])
def test_a_limit_that_a_request_names_is_its_wish(make: Callable[[int], Family]) -> None:
    text = "It is the end of the world, and one is singing."
    left = speak(request(text=text), ServedFamily(make(6)))
    assert (rows(left.arrays), left.cut_short) == (6, CutShort())
    asked = request(text=text, sampling=Sampling(max_new_tokens=4))
    wished = speak(asked, ServedFamily(make(6)))
    assert (rows(wished.arrays), wished.cut_short) == (4, None)


def test_a_text_that_is_told_a_word_at_a_time_ends_with_it() -> None:
    heard = speak(request(text="The small talker."), ServedFamily(kyutai_tts()))
    assert heard.cut_short is None
    assert not heard.arrays[REDRAW].any()


def test_a_voice_whose_pointer_stands_still_names_the_word() -> None:
    heard = speak(request(text="Hum so."), ServedFamily(standing()))
    assert heard.cut_short == CutShort("Hum")
    assert set(draws(heard)) == {0, 1, 2}
    at = draws(heard).index(1) + 7
    again = speak(request(text="Hum so."), ServedFamily(standing()), cut(heard.arrays, 0, at))
    same(concatenate([cut(heard.arrays, 0, at), again.arrays]), heard.arrays)
    assert again.cut_short == CutShort("Hum")


def test_durations_that_are_bounded_need_no_guard() -> None:
    bounded = Forgetful()
    bounded.signs = None
    assert ServedFamily(bounded).watch is None
    assert REDRAW not in ServedFamily(bounded).spec.replay


def test_what_a_late_listener_heard_stands_whenever_its_talker_dies() -> None:
    """Frames under suspicion are sent to it, so a successor redraws from where the log ends."""
    whole = late(None)
    assert draws(whole).index(1) > 60  # sent under suspicion
    for at in range(1, rows(whole.arrays), 37):
        before = cut(whole.arrays, 0, at)
        heard = late(before)
        said = concatenate([before, *heard.chunks])
        assert (np.diff(said[REDRAW].astype(int)) >= 0).all()
        assert said[REDRAW].max() == 2
        assert heard.cut_short == CutShort()


def late(restored: Arrays | None) -> Heard:
    """A runaway at a listener who has nothing in hand."""
    bench, heard, _ = runaway(60.0, restored)
    bench.run()
    return heard


def test_a_successor_in_the_silence_behind_a_sentence_goes_on_with_it() -> None:
    """What a stream knows of by itself was drawn by nobody, and has flags all the same."""
    asked = request(text="So it is. So!", runaway_guard=False)
    family = ServedFamily(chatterbox("turbo", whole=False))
    whole = speak(asked, family).arrays
    for at in np.flatnonzero(whole["left"] >= 0).tolist():
        heard = speak(asked, family, cut(whole, 0, at + 1))
        same(concatenate([cut(whole, 0, at + 1), *heard.chunks]), whole)
