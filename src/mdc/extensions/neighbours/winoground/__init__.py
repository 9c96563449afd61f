"""Items of two images and two captions."""
