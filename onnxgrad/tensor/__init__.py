"""paddle.* tensor functions on static variables."""
