"""Hyperspectral denoising with data-driven loss weighting."""

__version__ = "0.1.0"
