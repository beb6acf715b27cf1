"""Drawing ids from logits."""
