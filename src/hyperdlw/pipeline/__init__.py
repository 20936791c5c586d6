"""From a noisy cube or file to a restored one: options, plan, run, report, products, advice."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
