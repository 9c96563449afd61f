"""The columns of Table 3: every metric by its key, and how it is called.

It imports nothing, so that planning can afford it; :mod:`mdc.report.caption_numbers` says what each is.
"""

from __future__ import annotations

#: of the paper, in its order
PAPER = {"BLEU-4": "B@4", "METEOR": "METEOR", "CIDEr": "CIDEr", "SPICE": "SPICE", "ROUGE-L": "ROUGE-L"}
MORE = {"BLEU-1": "B@1", "BLEU-2": "B@2", "BLEU-3": "B@3", "CLIPScore": "CLIPScore", "RefCLIPScore": "RefCLIPScore"}
#: of the embedded world, whose captions can be checked: of what is stated the true share, of the truth the told share
TRUTH = {
    "true": "true",
    "told": "told",
    **{f"true_{kind}": f"{kind} true" for kind in ("objects", "attributes", "counts", "relations")},
    **{f"told_{kind}": f"{kind} told" for kind in ("objects", "attributes", "counts", "relations")},
}
WORDS = {
    "unreadable": "unreadable words",
    "words": "words",
    "content_words": "content words",
    "content_recall": "content recall",
    "repeated": "repeats training",
}
COLUMNS = {**PAPER, **MORE, **TRUTH, **WORDS}
