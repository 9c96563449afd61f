"""Shortcuts in the built-in world's probes: the accuracy of predicting labels from a part of each scene's truth, by the most
frequent label of that part in other scenes. A higher accuracy of an encoder needs more than that part."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from mdc.data.formats.samples import Shortcut
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.world import UNITS, Scene, SceneObject, label_of

View = Callable[[Scene], Hashable]
Labelled = Sequence[tuple[Scene, int]]


def probe_shortcuts(task: str, seed: int, train: int, test: int) -> list[Shortcut]:
    """The best of each kind for a probe (a key of `PROBE_CLASSES`) of so many scenes per split: fitted on the training split,
    with its accuracy on the test split. The best is chosen by twofold cross-validation on the training split."""
    training, testing = (
        [(scene, label_of(task, scene)) for scene in (draw_scene(task, split, seed, n) for n in range(count))]
        for split, count in (("train", train), ("test", test))
    )
    halves = training[: train // 2], training[train // 2 :]
    shortcuts = []
    for (kind, what), view in _views(task).items():
        held_out = _accuracy(view, *halves) + _accuracy(view, *reversed(halves))
        shortcuts.append((held_out, Shortcut(kind, what, _accuracy(view, training, testing))))
    return best_of_each_kind(shortcuts)


def best_of_each_kind(scored: Iterable[tuple[float, Shortcut]]) -> list[Shortcut]:
    """The first shortcut of each kind with the highest score; ``scored``: (score, shortcut)."""
    best: dict[str, tuple[float, Shortcut]] = {}
    for pair in scored:
        best[pair[1].kind] = max(best.get(pair[1].kind, pair), pair, key=lambda ranked: ranked[0])
    return [shortcut for _, shortcut in best.values()]


def _accuracy(view: View, training: Labelled, testing: Labelled) -> float:
    """The accuracy on ``testing`` of the most frequent label of scenes with the same view in ``training``; 0 of none."""
    counts: defaultdict[Hashable, Counter[int]] = defaultdict(Counter)
    for scene, label in training:
        counts[view(scene)][label] += 1
    most = {key: count.most_common(1)[0][0] for key, count in counts.items()}
    return sum(most.get(view(scene), 0) == label for scene, label in testing) / max(len(testing), 1)


def _third(thing: SceneObject) -> tuple[int, int]:
    """The third of the image that has an object's centre: column and row, 0 to 2."""
    return 3 * thing.x // UNITS, 3 * thing.y // UNITS


def _views(task: str) -> dict[tuple[str, str], View]:
    """The views by kind and name. "One object" is the first or the last: red or blue, if there are both."""
    parts: dict[str, Callable[[SceneObject], Hashable]] = {
        "colour": lambda thing: thing.colour,
        "shape": lambda thing: thing.shape,
        "size": lambda thing: thing.size // 6,
        "place": _third,
    }
    parts.pop(task, None)  # the question itself is no shortcut
    views: dict[tuple[str, str], View] = {("nothing", "the most frequent label"): lambda scene: None}
    for names in [*itertools.combinations(parts, 1), *itertools.combinations(parts, 2)]:
        for which, at in (("first", 0), ("last", -1)):
            views["one object", f"{' and '.join(names)} of the {which}"] = lambda scene, names=names, at=at: tuple(  # type: ignore[misc]
                parts[name](scene.objects[at]) for name in names
            )
    if task in ("shape", "colour", "count"):  # places and words are the same as one object, or the label
        return views
    views["places", "which are filled"] = lambda scene: tuple(sorted(map(_third, scene.objects)))
    views["words", "how often each colour and shape is there"] = lambda scene: (
        *sorted(thing.colour for thing in scene.objects),
        *sorted(thing.shape for thing in scene.objects),
    )
    return views
