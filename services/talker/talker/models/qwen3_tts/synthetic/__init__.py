"""Synthetic checkpoints, for tests and for trying a deployment without the published weights.

python -m talker.models.qwen3_tts.synthetic FOLDER --size tiny --kind custom_voice
"""

from talker.models.qwen3_tts.synthetic.write import write_checkpoint

__all__ = ["write_checkpoint"]
