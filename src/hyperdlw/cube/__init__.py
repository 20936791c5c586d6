"""The cube: one place that fixes the axis order, the units and what counts as valid."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
