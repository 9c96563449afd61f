"""The scale of the golden case (:mod:`mdc.golden`): a little of everything that a scale can have."""

from __future__ import annotations

from typing import Any

SCALE = "golden"
RUNTIME = {"workers": 0, "log_every": 1}


def scale(seeds: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """A scale: a ViT, a residual network, a decoder on a frozen encoder, a corpus of scenes, its half, a method of each
    objective, two probes, two choice sets, every artefact."""
    corpus = {"kind": "scenes", "style": "alt", "train": 64, "val": 16, "seed": 1, "pixels": 48}
    described = {**corpus, "style": "dense", "seed": 5}
    choice = {"kind": "scenes", "items": 8, "seed": 4, "pixels": 48}
    probe = {"kind": "scenes", "train": 48, "test": 32, "seed": 3, "pixels": 48}
    backbone: dict[str, Any] = {"label": "ViT-T/12", "image_size": 48, "patch_size": 12}
    backbone |= {"width": 32, "layers": 1, "heads": 2, "embed_dim": 16}
    backbone["decoder"] = {"width": 32, "layers": 1, "heads": 2}
    table = {"backbones": ["ViT-T-12"], "probes": ["shape"]}
    scored: dict[str, Any] = {"corpora": {"alt": ["arc", "mdc", "clip"]}, "backbones": ["ViT-T-12"]}
    arc, mdc = ({"label": m.upper(), "method": m, "tuned": "plain"} for m in ("arc", "mdc"))
    recipe: dict[str, Any] = {
        "epochs": 1,
        "batch_size": 16,
        "accumulation": 1,
        "processes": 1,
        "lr": 1.0e-3,
        "warmup_steps": 1,
    }
    recipe |= {"weight_decay": 0.1, "beta1": 0.9, "beta2": 0.98, "clip_norm": 1.0, "precision": "fp32"}
    recipe |= {"compile": False, "threads": 1, "device": "cpu", "validate_every": 4}
    recipe |= {"snapshots": [0.5]}
    codes = {"kind": "codes", "tokenizer": "vq", "image_size": 48, "tokens": 36, "width": 8}
    diffuse = {"kind": "diffuse", "steps": 3}
    unmask = {"kind": "unmask", "lengths": [6]}
    worse = {kind: [1, 2, 3, 4, 5] for kind in ("noise", "cutout")}
    on_codes = {
        "corpus": "described",
        "images": 8,
        "pretrained": "described",
        "training": "described",
        "backbone": "on-codes",
    }
    return {
        "label": SCALE,
        "data": {
            "vocabularies": {"words": ["alt", "half", "described", "relation", "order"]},
            "samples_per_shard": 40,
            "max_skipped": 0.0,
            "corpora": {
                "alt": {"label": "Alt-text", "source": corpus},
                "half": {"label": "Half", "source": {**corpus, "train": 32}},
                "described": {"label": "Described", "source": {**described, "train": 32, "test": 8}},
            },
            "probes": {
                "shape": {"label": "Shape", "source": {**probe, "task": "shape"}},
                "colour": {"label": "Colour", "source": {**probe, "task": "colour"}},
            },
            "choices": {
                "relation": {"label": "Relation", "source": {**choice, "question": "relation"}},
                "order": {"label": "Order", "source": {**choice, "question": "dense_order"}},
            },
            "primary_probe": "shape",
        },
        "tokenizers": {
            "vq": {
                **{
                    "label": "VQ",
                    "kind": "vq_vae",
                    "corpus": "alt",
                    "image_size": 48,
                    "factor": 8,
                    "codes": 16,
                    "width": 8,
                },
                **{
                    "channels": 16,
                    "recipe": {"epochs": 1, "batch_size": 32, "lr": 1.0e-3, "threads": 1, "device": "cpu"},
                },
            }
        },
        "encoders": {
            "clip": {
                **{"label": "our CLIP", "kind": "run", "corpus": "alt", "backbone": "ViT-T-12", "method": "clip"},
                **{"image_size": 48, "tokens": 16, "width": 32},
            },
            "vq": {**codes, "label": "codes"},
            "vq_continuous": {**codes, "label": "before codes", "quantised": False},
        },
        "encode": {"batch": 16, "threads": 1, "device": "cpu"},
        "pretrain": {
            "backbones": {
                "ViT-T-12": backbone,
                "on-objects": {**backbone, "label": "ViT-T/12, objects", "reads": "objects"},
                "cnn": {
                    **{"label": "ResNet", "image_size": 48, "block": "basic", "blocks": [1], "embed_dim": 16},
                    "decoder": backbone["decoder"],
                },
                "on-clip": {"label": "decoder on our CLIP", "frozen": "clip", "decoder": backbone["decoder"]},
                "on-codes": {"label": "decoder on codes", "frozen": "vq", "decoder": backbone["decoder"]},
                "before-codes": {
                    "label": "decoder before codes",
                    "frozen": "vq_continuous",
                    "decoder": backbone["decoder"],
                },
            },
            "seeds": list(seeds),
            "recipe": recipe,
            "runtime": RUNTIME,
            "overrides": [
                {
                    "when": {"backbone": ["on-codes", "before-codes"]},
                    "set": {
                        **{"auxiliary": 0.01, "average": {"decay": 0.9, "every": 1}, "lr_schedule": "constant"},
                        **{"clip_steps": 1, "snapshots": [], "validate_every": 1},
                        **{"order": {"blocks": {"buffer": 20}}},
                    },
                }
            ],
        },
        "probe": {
            **{"lr": 0.1, "epochs": 1, "batch_size": 64, "seed": 0, "feature_batch": 128},
            **{"precision": "fp32", "threads": 1, "device": "cpu"},
        },
        "finetune": {
            "tuned": {"corpus": "described", "recipe": {**recipe, "snapshots": []}, "patience": 2},
            "ends": {"corpus": "described", "recipe": {**recipe, "snapshots": []}, "patience": 2, "canvas": 12},
        },
        "caption": {"batch_tokens": 4096, "precision": "fp32", "processes": 1, "threads": 1, "device": "cpu"},
        "score": {
            **{"samples": 16, "mismatched": 2, "seed": 0, "batch_tokens": 4096},
            **{"precision": "fp32", "processes": 1, "threads": 1, "device": "cpu"},
        },
        "mc_diffusion": {
            "datasets": {
                "codes": {**on_codes, "label": "On codes", "split": "test"},
                "codes_dev": {**on_codes, "label": "On codes, dev", "split": "val", "systems": ["cfg_1", "cfg_3"]},
            },
            "backbones": ["ViT-T-12"],
            "systems": {
                "mcd": {"label": "MC-Diffusion", "method": "mcd", "write": diffuse},
                "mcd_continuous": {
                    **{"label": "before codes", "method": "mcd", "backbone": "before-codes", "write": diffuse},
                },
                "mcd_blind": {"label": "other image", "method": "mcd", "images": "other", "write": diffuse},
                "cfg_1": {"label": "CFG 1", "method": "mcd_cfg", "write": diffuse},
                "cfg_3": {"label": "CFG 3", "method": "mcd_cfg", "write": {**diffuse, "guidance": 3.0}},
                "mcs_1": {"label": "MCS 1", "method": "mcd_mcs_50", "write": diffuse},
                "mcs_3": {"label": "MCS 3", "method": "mcd_mcs_50", "write": {**diffuse, "guidance": 3.0}},
                "mcs_3_printed": {
                    **{"label": "MCS 3 as printed", "method": "mcd_mcs_50", "first_seed": True},
                    "write": {**diffuse, "guidance": 3.0, "orientation": "as_printed", "condition_mask": "per_image"},
                },
            },
            "left_out": ["METEOR", "SPICE"],
            "clip_score": {"kind": "run", "method": "clip"},
            "examples": 2,
        },
        "claims": {
            "datasets": {
                "claimed": {
                    **{"label": "Described", "corpus": "described", "images": 8, "pretrained": "alt"},
                    **{"tuned": {"plain": "tuned"}, "training": "described"},
                },
                "claimed_val": {
                    **{
                        "label": "Described (val)",
                        "corpus": "described",
                        "split": "val",
                        "images": 8,
                        "pretrained": "alt",
                    },
                    **{"systems": ["ratio_100", "ratio_mdc"], "training": "described"},
                },
            },
            "backbones": ["ViT-T-12"],
            "systems": {
                "ratio_100": {"label": "100 %", "method": "parallel", "write": unmask},
                "ratio_mdc": {"label": "MDC", "method": "mdc", "write": unmask},
                "reads_objects": {
                    "label": "MDC, objects",
                    "method": "mdc",
                    "backbone": "on-objects",
                    "write": unmask,
                },
                "cnn_lstm": {
                    **{"label": "CNN-LSTM", "method": "lstm", "backbone": "cnn", "weights": "last"},
                    "write": {"kind": "beam", "width": 2, "least": 2, "most": 8},
                },
                "robust": {
                    **{"label": "MDC, six", "method": "mdc", "tuned": "plain"},
                    "write": unmask,
                    "distorted": worse,
                },
                "robust_arc": {
                    **{"label": "ARC", "method": "arc", "tuned": "plain", "distorted": worse},
                    "write": {"kind": "beam", "width": 1, "least": 6, "most": 6},
                },
                "guided": {
                    **{"label": "MDC, guided", "method": "mdc", "tuned": "plain"},
                    "write": {**unmask, "guide": {"weight": 20.0, "candidates": 3}},
                },
                "few_32": {
                    "label": "MDC, 32 examples",
                    "method": "mdc",
                    "tuned": "plain",
                    "weights": "last",
                    "write": unmask,
                },
                "ratio_other": {"label": "MDC, other image", "method": "mdc", "images": "other", "write": unmask},
            },
            "left_out": ["METEOR", "SPICE"],
            "clip_score": {"kind": "run", "method": "clip"},
            "guide": {"kind": "run", "method": "clip_lb"},
        },
        "tables": {
            "table1": {
                **table,
                "corpora": {"alt": ["arc", "mdc", "clip"], "half": ["mdc"]},
                "probes": ["shape", "colour"],
                "encoders": ["clip"],
                "contrasts": [["mdc", "clip"], ["alt/mdc", "half/mdc"]],
                "primary": [["alt/mdc", "alt/clip"]],
            },
            "table2": {
                **{**scored, "also": {"on-clip": {"alt": ["arc", "mdc"]}}},
                "columns": {
                    "relation": {"label": "Relation", "sets": ["relation"], "parts": "groups"},
                    "order": {"label": "Order", "sets": ["order"]},
                },
                "alphas": [0.0, 0.5, 1.0],
                "contrasts": [["alt/mdc/heuristic", "alt/mdc/monte_carlo"]],
                "primary": [["alt/mdc/heuristic", "alt/arc/likelihood"]],
            },
            "table3": {
                "datasets": {
                    "described": {
                        **{"label": "Described", "corpus": "described", "images": 8, "pretrained": "alt"},
                        **{"tuned": {"plain": "tuned", "ends": "ends"}, "training": "described"},
                    },
                    "on_clip": {
                        **{"label": "On our CLIP", "corpus": "described", "images": 8, "pretrained": "described"},
                        **{"backbone": "on-clip", "systems": ["arc", "mdc_6"], "tuned": {"plain": None}},
                        "training": "described",
                    },
                },
                "backbones": ["ViT-T-12"],
                "systems": {
                    "arc": {**arc, "write": {"kind": "beam", "width": 2, "most": 10}},
                    "mdc_6": {**mdc, "length": "6", "write": {"kind": "unmask", "lengths": [6]}},
                    "mdc_ends": {
                        **{**mdc, "length": "free", "tuned": "ends"},
                        "write": {"kind": "unmask", "lengths": [11], "ends": True},
                    },
                    "mdc_blind": {
                        **{**mdc, "label": "MDC · other image", "images": "other", "ranked": False},
                        "write": {"kind": "unmask", "lengths": [6]},
                    },
                },
                "left_out": ["METEOR", "SPICE"],  # METEOR's program takes ten seconds to start
                "clip_score": {"kind": "run", "method": "clip"},
                "judge": {
                    "by": {"kind": "clip_score"},
                    "contests": {"main": {"label": "chosen", "systems": ["arc", "mdc_6", "mdc_ends"]}},
                },
                "contrasts": [["described/mdc_6", "described/mdc_blind"]],
                "primary": [["described/mdc_6", "described/arc"]],
                "examples": 2,
            },
            "figure6": {"leave_out": ["mdc_blind"]},
            "mcd_table1": {
                **{"datasets": ["codes"], "systems": ["mcd", "mcd_continuous", "mcd_blind"]},
                **{"contrasts": [["codes/mcd", "codes/mcd_blind"]], "primary": [["codes/mcd", "codes/mcd_continuous"]]},
            },
            "mcd_examples": {"dataset": "codes", "systems": ["mcd", "cfg_3"]},
            "mcd_table3": {
                "datasets": ["codes"],
                "systems": ["cfg_1", "cfg_3"],
                "choose_on": "codes_dev",
                "contrasts": [["codes/cfg_3", "codes/cfg_1"]],
            },
            "mcd_table4": {
                "datasets": ["codes"],
                "systems": ["mcs_1", "mcs_3"],
                "contrasts": [["codes/mcs_3", "codes/mcs_1"]],
            },
            "mcd_grid": {
                "datasets": ["codes"],
                "systems": ["mcs_3", "mcs_3_printed"],
                "first_seed": True,
                "contrasts": [["codes/mcs_3", "codes/mcs_3_printed"]],
            },
            "mcd_figure3": {
                "dataset": "codes",
                "curves": {
                    "cfg": {"label": "CFG", "systems": ["cfg_1", "cfg_3"]},
                    "mcs": {"label": "MCS", "systems": ["mcs_1", "mcs_3"]},
                },
                "primary": [["mcs", "cfg"]],
            },
            "table_ratio": {
                **{"datasets": ["claimed"], "systems": ["ratio_100", "ratio_mdc", "ratio_other"]},
                "primary": [["claimed/ratio_mdc", "claimed/ratio_100"]],
            },
            "figure_robustness": {
                **{"dataset": "claimed", "systems": ["robust", "robust_arc"], "kinds": ["noise", "cutout"]},
                **{"primary": [["robust", "robust_arc"]], "claimed": ["cutout"]},
            },
            "table_conditioning": {
                **{"datasets": ["claimed"], "systems": ["ratio_mdc", "reads_objects"]},
                "primary": [["claimed/ratio_mdc", "claimed/reads_objects"]],
            },
            "table_baselines": {
                **{"datasets": ["claimed"], "systems": ["ratio_mdc", "cnn_lstm"]},
                "primary": [["claimed/ratio_mdc", "claimed/cnn_lstm"]],
            },
            "table_cnn": {**table, "corpora": {"alt": ["lstm"]}, "backbones": ["cnn"]},
            "figure_repetition": {**table, "corpora": {"alt": ["mdc"], "half": ["mdc"]}},
            "table_guidance": {
                **{"datasets": ["claimed"], "systems": ["robust", "guided"], "claimed": "true"},
                "primary": [["claimed/guided", "claimed/robust"]],
            },
            "table_few": {
                **{"datasets": ["claimed"], "systems": ["ratio_mdc", "few_32"]},
                "primary": [["claimed/few_32", "claimed/ratio_mdc"]],
            },
            "table_splits": {
                **{"datasets": ["claimed", "claimed_val"], "systems": ["ratio_100", "ratio_mdc"]},
                "over": [["ratio_mdc", "ratio_100"]],
            },
            "table_retrieval": {**scored, "pairs": 10, "primary": [["alt/mdc/heuristic", "alt/clip/cosine"]]},
            "figure_position": {
                **{"corpora": {"alt": ["arc", "mdc"]}, "backbones": ["ViT-T-12"], "reference": "arc", "captions": 16},
                **{"gradient_captions": 16, "gradient_draws": 1, "bins": 3, "comparable": 0.1, "primary": ["alt/mdc"]},
            },
            "table4": {**table, "corpora": {"alt": ["mdc_wo_t", "mdc"]}, "contrasts": [["mdc", "mdc_wo_t"]]},
            "table5": {**table, "corpora": {"alt": ["mdc_0_100", "mdc"]}, "contrasts": [["mdc", "mdc_0_100"]]},
            "table6": {"backbone": "ViT-T-12"},
            "table9": {},
            "figure3": {"corpora": ["alt"]},
            "figure4": {**table, "corpora": {"alt": ["parallel", "mdc"]}, "contrasts": [["mdc", "parallel"]]},
            "figure5": {**table, "corpora": {"alt": ["mdc"], "half": ["mdc"]}, "trends": ["mdc"]},
            "figure_loss": {},
            "figure_schedules": {"primary": ["alt/mdc_0_100"]},
        },
    }
