"""Every codec gives its reference's samples: in any pieces, in company, and taken over."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.parity.codec_runner import PIECES, compare, in_company, in_pieces, taken_over
from tests.parity.codecs import CODECS
from ttsfamilies.base.codec.base import Codec

Load = Callable[[str], Codec]
QUICK = ("one shot", "unequal pieces")
# Those of the families that `make test` holds against their references; `make test-all` takes all.
SOON = ("snac", "mimi", "dac", "higgs_audio")
every_codec = pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in SOON else pytest.mark.slow) for one in CODECS]
)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """A codec by name, written and loaded once."""

    @cache
    def loaded(name: str) -> Codec:
        folder = tmp_path_factory.mktemp(name)
        CODECS[name].write(folder)
        return CODECS[name].load(folder)

    return loaded


@every_codec
@pytest.mark.parametrize(
    "pieces",
    [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in PIECES],
)
def test_any_pieces_give_the_references_samples(name: str, pieces: str, load: Load) -> None:
    subject = CODECS[name]
    compare(subject, in_pieces(load(name), subject, PIECES[pieces]))


@every_codec
def test_streams_cut_each_their_own_way_in_one_batch_do_not_touch(name: str, load: Load) -> None:
    subject = CODECS[name]
    for found in in_company(load(name), subject, list(PIECES.values())):
        compare(subject, found)


@every_codec
def test_taken_over_behind_any_piece_it_goes_on_with_the_references_samples(
    name: str, load: Load
) -> None:
    subject = CODECS[name]
    rests = taken_over(load(name), subject)
    assert len(rests) > 3
    for first, found in rests:
        compare(subject, found, first, served=True)


@every_codec
def test_the_golden_is_neither_silent_nor_clipped(name: str) -> None:
    wanted = CODECS[name].wanted()
    assert wanted.std() > 0.02
    assert np.abs(wanted).max() <= 1
    assert CODECS[name].material().keys()
