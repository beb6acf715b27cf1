"""What several families are made of."""
