"""What is used when nothing is asked for; apart, so that the command line need not load torch."""

MODEL = "plain"
"""The best of ``hyperdlw bench field``: lrtfdfr and eigenimages."""

WEIGHTS = "N+T+TS"
"""The network that was trained through all source models."""
