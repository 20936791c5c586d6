"""A local page to look at a cube, its weights and its restoration: ``hyperdlw view``.

``session`` holds the cube and its results, ``runner`` runs each ``job``, ``desk`` changes between cubes
that ``opening`` listed; none of them knows HTTP. ``server`` answers requests, ``serving`` listens on
127.0.0.1, ``exports`` makes the files, and ``static/`` is the page.
"""
