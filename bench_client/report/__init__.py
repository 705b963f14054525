"""Figures to terminal, Markdown and HTML. Pure: returns renderables and strings, prints nothing."""
