"""What to do with a noisy cube, and the transfer theory behind the choice of a network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
