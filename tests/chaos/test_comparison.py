"""Real runs beside simulated ones, read off correctly."""

from typing import Any

from tests.chaos.comparison import table, within


def run(number: int, p50_s: float | None, refused: float = 0.0, **more: Any) -> dict[str, Any]:
    key = {"what": "listeners", "load": 8, "round": number}
    figures = {"p50_s": p50_s, "p95_s": p50_s, "offered": 50, "refused": refused, "gaps": 0.0}
    return {**key, **figures, **more}


REAL = [run(0, 0.070), run(1, 0.080, others=0.25)]


def test_the_middle_of_the_simulated_runs_has_to_lie_in_the_spread_of_the_real_ones() -> None:
    assert within([0.07, 0.08], [0.01, 0.075, 0.9], "p50_s")
    assert not within([0.07, 0.08], [0.0801], "p50_s")
    assert not within([], [0.1], "p50_s")


def test_a_share_may_differ_by_one_request_in_fifty() -> None:
    assert within([0.0, 0.0], [0.02], "refused")
    assert not within([0.0, 0.0], [0.03], "refused")


def test_the_table_marks_what_is_off_and_says_what_else_took_the_machine() -> None:
    [row] = table(REAL, [run(0, 0.075), run(1, 0.077, refused=0.5)]).splitlines()[2:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:5] == ["8 listeners", "2", "0.25", "70 to 80", "76"]
    assert cells[7:9] == ["0.0 to 0.0", "**25.0**"]
