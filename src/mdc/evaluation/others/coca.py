"""Captions by open_clip's CoCa, for the Python of an environment of its own: its ``generate`` needs transformers below 5.

    python coca.py LIST OUT --model coca_ViT-B-32 --weights mscoco_finetuned_laion2b_s13b_b90k

LIST: a JSON file {image's name: its file}. OUT: a line {"image_id": name, "caption": text} for each, written as they come; images
that are in it already are skipped, so a killed call resumes. Imports nothing of ours.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", default=None)
    parser.add_argument("--beams", type=int, default=6, help="open_clip's own default; 1 is greedy")
    parser.add_argument("--seq-len", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    try:
        caption(args)
    except Exception as error:  # open_clip, the hub and torch raise whatever they like
        print(f"CoCa: {args.model} with weights {args.weights}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
        return 2
    return 0


def caption(args: argparse.Namespace) -> None:
    """Write a caption of each image of the list that has none yet."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import open_clip
    import torch
    import transformers
    from PIL import Image

    if int(transformers.__version__.split(".")[0]) >= 5:
        raise RuntimeError(
            f"its generate needs transformers below 5, and this environment has {transformers.__version__}; "
            "`make .coca/.ready` makes the one that it needs"
        )
    images: dict[str, str] = json.loads(args.list.read_text())
    done = finished(args.out)
    names = [name for name in images if name not in done]
    if not names:
        return
    torch.set_num_threads(args.threads)
    model: Any
    model, _, preprocess = open_clip.create_model_and_transforms(
        args.model, pretrained=args.weights, weights_only=True, device=args.device
    )
    model.eval()
    with args.out.open("a") as file:
        for start in range(0, len(names), args.batch):
            some = names[start : start + args.batch]
            pixels = torch.stack([preprocess(Image.open(images[name]).convert("RGB")) for name in some])
            with torch.no_grad():
                tokens = generate(model, pixels.to(args.device), args.beams, args.seq_len)
            for name, row in zip(some, tokens.cpu(), strict=True):
                file.write(json.dumps({"image_id": name, "caption": text(row)}) + "\n")
            file.flush()
            print(f"{min(start + args.batch, len(names))} of {len(names)} images", file=sys.stderr, flush=True)


def finished(out: Path) -> set[str]:
    """The images that have a caption; an incomplete last line is removed from the file."""
    if not out.exists():
        return set()
    lines = out.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        out.write_text("".join(lines[:-1]))
        lines = lines[:-1]
    return {json.loads(line)["image_id"] for line in lines}


def generate(model: Any, pixels: Any, beams: int, seq_len: int) -> Any:
    """Token ids of a caption of each image; by beam search as open_clip does it by default, or the likeliest token each time."""
    if beams == 1:
        return model.generate(pixels, seq_len=seq_len, generation_type="top_k", top_k=1, fixed_output_length=True)
    groups = 3 if beams % 3 == 0 else 1  # of open_clip's default
    return model.generate(
        pixels, seq_len=seq_len, generation_type="beam_search", num_beams=beams, num_beam_groups=groups
    )


def text(row: Any) -> str:
    """Token ids as text, up to the end."""
    import open_clip

    return open_clip.decode(row).split("<end_of_text>")[0].replace("<start_of_text>", "").strip()


if __name__ == "__main__":
    sys.exit(main())
