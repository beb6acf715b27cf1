"""Images, compose and chart, as an operator meets them."""
