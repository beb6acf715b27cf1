"""Up to where nobody needs the logs: nothing goes that a gateway, alive or dead, still needs."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gateway.requests.horizon import Horizon, HorizonTuning, Needs, worth
from tests.random_cases import examples
from ttscommon.bus import TRIMMED, Extent

MADE = datetime(2024, 1, 1, tzinfo=UTC)
HOLD_S, SETTLE_S, DEAF_S = 60.0, 4.0, 3.0
TUNING = HorizonTuning(HOLD_S, SETTLE_S, DEAF_S)


def extents(first: int, last: int, created: datetime = MADE) -> dict[str, Extent]:
    return dict.fromkeys(TRIMMED, Extent(first, last, created))


def of_all(sequence: int) -> dict[str, int]:
    return dict.fromkeys(TRIMMED, sequence)


def needs(last: int) -> Needs:
    made = Needs()
    made.saw(extents(1, last))
    return made


def looks(
    horizon: Horizon, words: dict[str, dict[str, int] | None], begin: int, end: int
) -> object:
    """Hear the words and look, once a second; what the last look says."""
    found = None
    for now in range(begin, end):
        for name, needed in words.items():
            horizon.hear(name, needed, now)
        found = horizon.look(now)
    return found


def test_who_has_seen_nothing_of_the_streams_needs_everything() -> None:
    assert Needs().report(0.0) == of_all(0)


def test_who_leaves_needs_what_clients_may_come_back_for() -> None:
    own = needs(100)
    own.add("plain", fresh=True, resumable=False)
    own.saw(extents(1, 200))
    assert own.report(0.0, leaving=True) == {}
    own.add("resumable", fresh=True, resumable=True)
    own.saw(extents(1, 300))
    assert own.report(0.0, leaving=True) == of_all(200)


def test_sequences_that_are_given_again_make_everything_needed() -> None:
    for later in (extents(1, 90), extents(1, 300, datetime(2025, 1, 1, tzinfo=UTC))):
        own = needs(100)
        own.add("a", fresh=True, resumable=False)
        assert not own.saw(later)
        assert own.report(0.0) == of_all(0)
        own.remove("a")
        assert own.report(0.0) == of_all(later["CODES"].last)


def test_a_gateway_that_knows_not_who_died_before_it_came_removes_nothing() -> None:
    horizon = Horizon(TUNING)
    assert looks(horizon, {"a": of_all(7)}, 0, int(HOLD_S)) == {}
    assert looks(horizon, {"a": of_all(9)}, int(HOLD_S), int(HOLD_S) + 2) == of_all(7)
    assert looks(horizon, {"a": of_all(9)}, int(HOLD_S) + 2, int(HOLD_S) + 8) == of_all(9)


def test_who_was_cut_off_begins_anew() -> None:
    horizon = Horizon(TUNING)
    looks(horizon, {"a": of_all(7)}, 0, 100)
    assert horizon.look(105) == {}
    assert looks(horizon, {"a": of_all(7)}, 106, 160) == {}
    assert looks(horizon, {"a": of_all(7)}, 160, 170) == of_all(7)


def test_the_last_word_of_a_gateway_that_died_counts_until_no_client_can_come_back() -> None:
    horizon = Horizon(TUNING)
    looks(horizon, {"a": of_all(7), "b": of_all(3)}, 0, 100)
    assert looks(horizon, {"a": of_all(9)}, 100, 159) == of_all(3)
    assert looks(horizon, {"a": of_all(9)}, 159, 170) == of_all(9)


def test_a_gateway_that_left_and_needs_nothing_holds_nothing_up() -> None:
    horizon = Horizon(TUNING)
    looks(horizon, {"a": of_all(7), "b": of_all(3)}, 0, 100)
    horizon.hear("b", {}, 100)
    assert looks(horizon, {"a": of_all(9)}, 100, 110) == of_all(9)


def test_while_a_gateway_does_not_say_what_it_needs_nothing_goes() -> None:
    horizon = Horizon(TUNING)
    assert looks(horizon, {"new": of_all(7), "old": None}, 0, 100) == of_all(0)


def test_lost_records_make_what_was_said_worthless() -> None:
    horizon = Horizon(TUNING)
    looks(horizon, {"a": of_all(7)}, 0, 100)
    horizon.doubt(100)
    assert looks(horizon, {"a": of_all(2)}, 100, 150) == {}


def test_little_is_not_worth_a_purge() -> None:
    assert worth(Extent(1, 100), 50, 0.25)
    assert not worth(Extent(1, 100), 10, 0.25)
    assert not worth(Extent(11, 10), 10, 0.25)


# How long a gateway's word takes to the others.
LATE_S = {"a": 0, "b": 2}


@dataclass
class Model:
    """Two gateways, one stream, and requests that move from one gateway to the other."""

    now: int = 0
    first: int = 1
    last: int = 0
    written: dict[str, list[int]] = field(default_factory=dict)
    at: dict[str, str] = field(default_factory=dict)
    own: dict[str, Needs] = field(default_factory=lambda: {name: Needs() for name in LATE_S})
    all: dict[str, Horizon] = field(
        default_factory=lambda: {name: Horizon(TUNING) for name in LATE_S}
    )
    words: list[tuple[int, str, dict[str, int]]] = field(default_factory=list)

    def submit(self, index: int) -> None:
        name, gateway = f"r{len(self.written)}", "ab"[index % 2]
        self.own[gateway].add(name, fresh=True, resumable=True)
        self.written[name], self.at[name] = [], gateway

    def write(self, index: int) -> None:
        if self.at:
            self.last += 1
            self.written[self.name(index)].append(self.last)

    def move(self, index: int) -> None:
        """As a client that comes back to the other gateway: the first one lets go at once."""
        if self.at:
            name = self.name(index)
            there = "b" if self.at[name] == "a" else "a"
            self.own[there].add(name, fresh=False, resumable=True)
            self.own[self.at[name]].remove(name)
            self.at[name] = there

    def end(self, index: int) -> None:
        if self.at:
            name = self.name(index)
            self.own[self.at.pop(name)].remove(name)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.words += [
                (self.now + LATE_S[name], name, own.report(self.now))
                for name, own in self.own.items()
            ]
            for horizon in self.all.values():
                for at_s, name, needed in self.words:
                    if at_s == self.now:
                        horizon.hear(name, needed, self.now)
            for name, own in self.own.items():
                own.saw(extents(self.first, self.last))
                self.trim(self.all[name].look(self.now).get("CODES", 0))

    def trim(self, through: int) -> None:
        needed = [one for name in self.at for one in self.written[name]]
        assert through < min(needed, default=self.last + 1)
        self.first = max(self.first, through + 1)

    def name(self, index: int) -> str:
        return sorted(self.at)[index % len(self.at)]


STEPS = st.tuples(
    st.sampled_from(["submit", "write", "write", "move", "end"]),
    st.integers(0, 2),
    st.sampled_from([0, 1, 1, 3, 10]),
)


@examples(40)
@given(st.lists(STEPS, min_size=20, max_size=60))
def test_nothing_goes_that_is_needed_and_all_goes_in_the_end(
    steps: list[tuple[str, int, int]],
) -> None:
    model = Model()
    model.wait(int(HOLD_S) + 1)
    for step, of_what, then_s in steps:
        getattr(model, step)(of_what)
        model.wait(then_s)
    model.at.clear()
    for own in model.own.values():
        for name in model.written:
            own.remove(name)
    model.wait(10)
    assert model.first == model.last + 1
