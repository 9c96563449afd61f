"""A page on this machine on which one tries a run: captions as they are written, what words look at, scores, gaps to fill."""
