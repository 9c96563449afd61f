"""Contests between captions: the question, the answer, and the endpoint that is asked."""
