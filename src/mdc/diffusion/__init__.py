"""The mathematics: noise schedule, masking, likelihood, decoding, mask-and-replace, beam search."""
