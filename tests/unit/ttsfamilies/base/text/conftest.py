from pathlib import Path

import pytest

from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.lexicon import Lexicon
from ttsfamilies.base.text.normalize import Normalizer

VOICE = Path(__file__).parents[5] / "voices" / "vesper"


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    return Lexicon.load(VOICE)


@pytest.fixture(scope="session")
def normalizer(lexicon: Lexicon) -> Normalizer:
    return Normalizer(lexicon.knows)


@pytest.fixture(scope="session")
def frontend() -> EnglishFrontend:
    return EnglishFrontend.load(VOICE)
