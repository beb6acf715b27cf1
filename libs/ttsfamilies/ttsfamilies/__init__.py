"""Model families: a folder each. What they are made of is in `base`; `known` lists them."""
