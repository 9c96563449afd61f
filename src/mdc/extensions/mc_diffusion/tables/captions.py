"""MC-Diffusion's tables of captions."""

SHOWN = {
    "of": "captions",
    "artefacts": {
        "mcd_table1": {"title": "MC-Diffusion, table 1: without guidance"},
        "mcd_table3": {"title": "MC-Diffusion, table 3: classifier-free guidance"},
        "mcd_table4": {"title": "MC-Diffusion, table 4: masked-condition guidance"},
        "mcd_grid": {"title": "MC-Diffusion: orientation and mask draw"},
    },
}
