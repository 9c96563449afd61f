"""The tables of captions that put a blog post's claims to the test."""

SHOWN = {
    "of": "captions",
    "artefacts": {
        "table_ratio": {
            "title": "Mask ratios and captions",
            "what": "Captions by models of one mask ratio each, and by MDC",
        },
        "table_conditioning": {
            "title": "Regions or the whole image",
            "what": "Captions by models whose decoder reads every patch of an image, the means of regions, or one vector",
        },
        "table_baselines": {
            "title": "A CNN with an LSTM",
            "what": "Captions by an LSTM that attends to a convolutional encoder, and by transformers on that encoder and on a "
            "ViT",
        },
        "table_guidance": {
            "title": "Guidance by CLIP",
            "what": "Captions by MDC, each token guided by a CLIP, by its weight",
        },
        "table_few": {
            "title": "Few examples",
            "what": "Captions by pretrained captioners that saw a few examples of another domain, or none",
        },
    },
}
