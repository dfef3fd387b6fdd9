"""Reverse-mode differentiation of programs."""
