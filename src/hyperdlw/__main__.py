"""``python -m hyperdlw`` is the command ``hyperdlw``."""

from .app.cli.main import main

if __name__ == "__main__":
    main()
