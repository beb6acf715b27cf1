"""Parts that protocols share: keys, error shapes, HTTP bodies of audio, contexts."""
