"""Losses over many classes, labels and looked-up tables."""
