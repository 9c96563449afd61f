"""The built-in world: rendered scenes of coloured shapes, their captions, and what is true of them."""
