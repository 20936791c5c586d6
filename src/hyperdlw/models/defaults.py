"""What is used when nothing is asked for; apart, so that the command line need not load torch."""

MODEL = "lrtfdfr"
"""The best mean PSNR of ``hyperdlw bench targets``, in one of the shortest times."""

WEIGHTS = "N+T+TS"
"""The network that was trained through all source models."""
