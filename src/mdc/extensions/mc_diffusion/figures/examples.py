"""MC-Diffusion's examples of captions, its table 2."""

SHOWN = {
    "of": "caption_examples",
    "artefacts": {
        "mcd_examples": {
            "title": "MC-Diffusion, table 2: examples",
            "what": "captions by mask-and-replace diffusion (MC-Diffusion, table 2)",
        },
    },
}
