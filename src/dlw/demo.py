"""A made-up scene, every model with every weight source, one table and one page."""
