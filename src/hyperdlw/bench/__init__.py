"""The benchmark: cases as data, records that are never made twice, reports."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
