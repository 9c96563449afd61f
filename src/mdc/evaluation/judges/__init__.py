"""Contests between captions: the question, the parsing of answers, and the endpoint."""
