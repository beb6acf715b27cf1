"""The model families, a folder each; `base` has their parts, `known` lists them."""
