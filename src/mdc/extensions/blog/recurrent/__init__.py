"""Show, Attend and Tell: an LSTM with soft attention."""
