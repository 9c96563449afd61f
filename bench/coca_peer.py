"""The other side of bench/caption.py: open_clip's ``coca.generate``, in the environment that `make .coca/.ready` makes.

Reads a line of JSON a question, {"layers": [text, multimodal], "beams": n, "images": k, "tokens": t}, and answers with one,
{"seconds": s}. Weights are untrained, which takes as long.
"""

import json
import sys
import time
from typing import Any

import open_clip
import torch

_WIDTH, _HEADS = 512, 8


def model(text: int, multimodal: int) -> Any:
    """coca_ViT-B-32 with so many layers in its two text towers (the published one has 12 and 12)."""
    config = open_clip.get_model_config("coca_ViT-B-32")
    config["text_cfg"]["layers"], config["multimodal_cfg"]["layers"] = text, multimodal
    config.pop("custom_text", None)
    return open_clip.CoCa(**config).eval()


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    models: dict[tuple[int, int], Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        layers = tuple(request["layers"])
        if layers not in models:
            torch.manual_seed(0)
            models[layers] = model(*layers)
        images = torch.rand(request["images"], 3, 224, 224, generator=torch.Generator().manual_seed(0))
        # SOT, the tokens, EOT; a caption may not end earlier
        length: dict[str, Any] = {"seq_len": request["tokens"] + 2, "min_seq_len": request["tokens"] + 1}
        start = time.perf_counter()
        with torch.no_grad():
            if request["beams"] == 1:
                models[layers].generate(images, generation_type="top_k", top_k=1, fixed_output_length=True, **length)
            else:
                models[layers].generate(
                    images, generation_type="beam_search", num_beams=request["beams"], num_beam_groups=3, **length
                )
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
