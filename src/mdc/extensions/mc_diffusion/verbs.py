"""The verbs of image tokenizers and of word embeddings."""

from mdc.plan.verb import Verb

VERBS = {
    "tokenizer": Verb(
        stage="encoders",
        layer="tokenizers",
        module="mdc.extensions.mc_diffusion.image_tokenizers.job",
        jobs="mdc.extensions.mc_diffusion.jobs",
        record="tokenizer.json",
        outputs=("tokenizer.safetensors",),
        computes="entry.recipe",
        resumes=True,
        watches="entry.path",
        text="train an image tokenizer, or import a pretrained one; it resumes where it was killed",
    ),
    "import-words": Verb(
        stage="encoders",
        layer="words",
        module="mdc.extensions.mc_diffusion.words.job",
        jobs="mdc.extensions.mc_diffusion.jobs",
        record="words.json",
        outputs=("words.safetensors",),
        text="import pretrained embeddings of BPE tokens as safetensors",
    ),
}
