"""Who learns shapes: MDC, its neighbours, and controls for what they differ in."""

SHOWN = {
    "of": "heads",
    "artefacts": {"table_shapes": {"title": "Who learns shapes"}},
}
