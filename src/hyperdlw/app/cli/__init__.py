"""The command ``hyperdlw``: parse, call, print."""
