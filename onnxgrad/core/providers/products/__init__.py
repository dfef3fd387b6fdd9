"""Matrix products, attention and what stands around them."""
