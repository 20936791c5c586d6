"""Bilevel training of weight networks."""
