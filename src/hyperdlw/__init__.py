"""Hyperspectral denoising with data-driven loss weighting."""

import os

import lazy_loader

__version__ = "0.2.0.dev0"

# Large arrays of torch in huge pages, where Linux has them on request: glibc gives arrays above 32 MB
# back at once, and faulting them in again page by page takes a quarter of the time of a 1024 x 1024 cube.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# Every name is imported when it is first used: torch takes seconds, ``hyperdlw --help`` should not.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
