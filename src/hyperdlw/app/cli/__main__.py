"""``torchrun --nproc-per-node 2 -m hyperdlw.train RECIPE --data DIR``: one run over several processes."""

from __future__ import annotations

import sys

from .main import run

if __name__ == "__main__":
    sys.exit(run(["train", *sys.argv[1:]]))
