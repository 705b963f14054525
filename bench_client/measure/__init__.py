"""Records to figures. Pure: no clock, no socket, no file."""
