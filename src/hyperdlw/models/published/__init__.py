"""Published methods that are not of the solver's form: no weights, no strength."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
