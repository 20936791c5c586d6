"""What is used when nothing is asked for; apart, so that the command line need not load torch."""

MODEL = "plain"
"""The best of ``hyperdlw bench field``: lrtfdfr and eigenimages."""

WEIGHTS = "N+T+TS-remote"
"""Trained through all source models, on indoor and airborne scenes."""
