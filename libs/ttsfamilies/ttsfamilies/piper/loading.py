"""Loading a Piper voice."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.hub import CheckpointError
from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.lexicon import LexiconError
from ttsfamilies.base.text.locales import british
from ttsfamilies.piper.family import Piper
from ttsfamilies.piper.phones import PROGRAM, English, Espeak, Sentences, characters
from ttsfamilies.piper.request import ESPEAK, OWN
from ttsfamilies.piper.voice import PiperConfig, PiperVoice, config_of
from ttsfamilies.piper.weights import load_net


def load(name: str, place: Path, how: ModelOptions) -> Piper:
    """A voice's file, or the folder that holds it, as model `name`; raises CheckpointError."""
    voice = PiperVoice(place)
    net, rows = load_net(voice, how.place), voice.shapes["enc_p.emb.weight"][0]
    table = voice.config.phoneme_id_map
    if any(not 0 <= one < rows for ids in table.values() for one in ids):
        where = config_of(voice.where(""))
        raise CheckpointError(f"{where}: phoneme_id_map has ids beyond the {rows} of the network")
    if (speakers := voice.shapes.get("emb_g.weight", (1,))[0]) != voice.config.num_speakers:
        where = config_of(voice.where(""))
        raise CheckpointError(f"{where}: num_speakers is not {speakers}, as the network has it")
    return Piper(name, net, voice.config, ways_of(voice.config, how.lexicon))


def ways_of(config: PiperConfig, lexicon: Path) -> dict[str, Sentences]:
    """How texts are read, by name, the default first; raises CheckpointError where none can.

    What a text sounds like must not depend on what a machine has installed: another talker may have
    to go on with it. So for English the project's frontend is the default everywhere.
    """
    if config.phoneme_type == "text":
        return {OWN: characters}
    found: dict[str, Sentences] = {}
    if config.tag.lower().partition("-")[0] == "en":
        try:
            found[OWN] = English(EnglishFrontend.load(lexicon), british(config.tag))
        except LexiconError as error:
            raise CheckpointError(f"English voices need the lexicon: {error}") from error
    if Espeak.installed():
        found[ESPEAK] = Espeak(config.espeak.voice)
    if not found:
        raise CheckpointError(
            f"a voice of {config.tag} needs {PROGRAM} for its phones: install it (Debian:"
            f" apt-get install {PROGRAM}), where talkers run"
        )
    return found
