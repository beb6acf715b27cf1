"""Rules of sampling: top-k and top-p by transformers' definitions, and repeated ids."""

import torch
from torch import Tensor

from ttsfamilies.base.sampling import Noise, Settings, draw_unrepeated
from ttsfamilies.base.sampling.rules import NEVER, keep_mass, keep_top


def limited(
    logits: list[list[float]], temperature: list[float], top_k: list[int], top_p: list[float]
) -> Tensor:
    kept = keep_top(torch.tensor(logits), torch.tensor(top_k))
    return keep_mass(kept, torch.tensor(temperature), torch.tensor(top_p))


def kept(logits: list[float], top_k: int = 0, top_p: float = 1.0, t: float = 1.0) -> list[int]:
    out = limited([logits], [t], [top_k], [top_p])
    return torch.isfinite(out[0]).nonzero()[:, 0].tolist()


def test_the_largest_k_stay_and_ties_with_them() -> None:
    assert kept([1.0, 3.0, 2.0, 2.0, 0.0], top_k=2) == [1, 2, 3]
    assert kept([1.0, 3.0, 2.0], top_k=0) == [0, 1, 2]
    assert kept([1.0, 3.0, 2.0], top_k=9) == [0, 1, 2]


def test_the_smallest_set_that_holds_p_stays() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    assert kept(logits, top_p=0.6) == [0, 1]
    assert kept(logits, top_p=0.81) == [0, 1, 2]
    assert kept(logits, top_p=0.01) == [0]
    assert kept(logits, top_p=1.0) == [0, 1, 2, 3]


def test_p_counts_within_the_top_k() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().tolist()
    assert kept(logits, top_k=2, top_p=0.56) == [0]
    assert kept(logits, top_k=4, top_p=0.56) == [0, 1]


def test_each_row_has_its_own_settings() -> None:
    out = limited([[1.0, 3.0, 2.0]] * 3, [1.0, 2.0, 1.0], [0, 2, 1], [1.0, 1.0, 0.5])
    assert out.tolist() == [[1.0, 3.0, 2.0], [NEVER, 3.0, 2.0], [NEVER, 3.0, NEVER]]


IDS, WINDOW = 200, 10


def settings(rows: int, top_k: int = 25, top_p: float = 0.8, temperature: float = 1.0) -> Settings:
    return Settings(
        torch.full((rows,), temperature), torch.full((rows,), top_k), torch.full((rows,), top_p)
    )


def drawn(
    logits: Tensor, recent: Tensor | None = None, how: Settings | None = None, seed: int = 0
) -> Tensor:
    rows = len(logits)
    noise = Noise(torch.arange(seed, seed + rows), torch.zeros(rows, dtype=torch.int64))
    recent = torch.full((rows, WINDOW), -1) if recent is None else recent
    allowed = torch.zeros_like(logits, dtype=torch.bool)
    return draw_unrepeated(logits, noise, how or settings(rows), recent, allowed)[0]


def test_the_nucleus_counts_the_share_of_all_ids_and_ends_with_the_one_that_reaches_it() -> None:
    shares = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05])
    logits = shares.log().expand(4000, -1)
    found = set(drawn(logits, how=settings(4000, top_p=0.7)).tolist())
    assert found == {0, 1}
    assert set(drawn(logits, how=settings(4000, top_p=0.71)).tolist()) == {0, 1, 2}
    assert set(drawn(logits, how=settings(4000, top_k=1)).tolist()) == {0}
    assert set(drawn(logits, how=settings(4000, top_k=0, top_p=1.0)).tolist()) == {0, 1, 2, 3, 4}


def test_a_repeated_id_is_replaced_by_another_of_all() -> None:
    logits = torch.zeros(2000, IDS)
    logits[:, 3] = 9.0
    recent = torch.full((2000, WINDOW), -1)
    recent[:, 4] = 3
    assert set(drawn(logits).tolist()) == {3}
    found = drawn(logits, recent).tolist()
    assert 3 not in found
    assert len(set(found)) > IDS // 2


def test_a_greedy_row_repeats_itself() -> None:
    logits = torch.randn(3, IDS, generator=torch.Generator().manual_seed(1))
    recent = logits.argmax(-1)[:, None].expand(-1, WINDOW)
    assert drawn(logits, recent, settings(3, temperature=0.0)).tolist() == recent[:, 0].tolist()


def test_what_is_forbidden_is_never_drawn_and_what_is_not_finite_is_told() -> None:
    logits = torch.zeros(500, 4)
    logits[:, 2], logits[9, 0] = 50.0, float("nan")
    forbidden = (torch.arange(4) == 2).expand(500, -1)
    noise = Noise(torch.arange(500), torch.zeros(500, dtype=torch.int64))
    recent = torch.full((500, WINDOW), -1)
    found, finite = draw_unrepeated(logits, noise, settings(500, top_p=1.0), recent, forbidden)
    assert set(found[finite].tolist()) == {0, 1, 3}
    assert finite.logical_not().nonzero().tolist() == [[9]]


def test_a_row_draws_the_same_in_any_company() -> None:
    logits = torch.randn(6, IDS, generator=torch.Generator().manual_seed(2)) * 3
    how = Settings(
        torch.tensor([1.0, 0.0, 0.7, 1.0, 1.3, 1.0]),
        torch.tensor([25, 25, 0, 100, 5, 63]),
        torch.tensor([0.8, 0.8, 0.9, 1.0, 0.5, 0.8]),
    )
    whole = drawn(logits, how=how).tolist()
    alone = [
        drawn(logits[i : i + 1], how=how.rows(torch.tensor([i])), seed=i).item() for i in range(6)
    ]
    assert whole == alone
