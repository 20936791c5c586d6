"""The networks, their files, and the trained ones that come with the package."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
