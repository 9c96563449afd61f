"""The built-in world as a corpus: rendered scenes of coloured shapes with a caption whose truth is known.

Every sample depends only on (style, split, seed, index), to the byte. The splits are disjoint from each other and from the
probes' by construction (see :mod:`mdc.data.scenes.drawing`).
"""

from collections.abc import Iterator

from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.scenes.captions import compose
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.render import encode_png, render
from mdc.data.sources.source import Source


class ScenesCorpus(Source[RawSample]):
    """Captioned scenes; the source's key with a split's name is its number of scenes.

    The same seed gives the same images in all styles, as for a recaptioned corpus. ``truth`` is `Scene.to_json` and ``errors``:
    the caption's deliberate false claims in the words of `check_caption`.
    """

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        source = self.config
        for index in range(source.get(split, 0)):
            scene = draw_scene("caption", split, source["seed"], index)
            png = encode_png(render(scene, source["pixels"]))
            caption = compose(scene, source["style"], source["seed"], index)
            truth = scene.to_json() | {"errors": list(caption.errors)}
            yield RawSample(f"{split}-{index:07d}", png, "png", (caption.text,), truth)


open_source = ScenesCorpus  # see mdc.data.sources.source
