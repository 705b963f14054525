"""The edges: clock, sockets, processes, files."""
