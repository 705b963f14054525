"""Start the servers under test: presets, command lines, process trees, and what went wrong."""
