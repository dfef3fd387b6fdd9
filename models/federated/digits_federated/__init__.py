"""The digits, trained by nodes that keep their images."""
