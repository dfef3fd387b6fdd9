"""Losses: names and formulas, weights of classes, the scale of a loss, a teacher."""
