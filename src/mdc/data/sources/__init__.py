"""Where samples come from: a module for each kind of source."""
