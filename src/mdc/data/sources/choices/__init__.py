"""Images with one right caption among several: a module a kind of source, and how wrong captions are made from right ones."""
