"""Open, save and convert cubes: one file per format, found by content first, by name second."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
