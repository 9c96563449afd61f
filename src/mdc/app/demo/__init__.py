"""A local web page to try a run: captions step by step, attention, scores, gaps to fill."""
