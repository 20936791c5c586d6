"""A local page to look at a cube, its weights and its restoration: ``hyperdlw view``.

``session`` holds the cube, runs each ``job`` and knows nothing of HTTP; ``server`` puts it on
127.0.0.1; ``exports`` makes the files; ``static/`` is the page.
"""
