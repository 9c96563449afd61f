"""The paper's methods: a folder each, with its parameters, loss, scores and decoding."""
