"""Scenes, noise with a known truth, and metrics: what a method is tested with."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
