"""MDC, its ablations, BERT-r and parallel decoding: masked captioning."""
