"""What a caption of a scene leaves unsaid."""

from mdc.data.scenes.check import components, read, stated_links
from mdc.data.scenes.language import Arrangement, Claim, Number, Relation
from mdc.data.scenes.world import Scene, arrangement


def missing_from(scene: Scene, caption: str) -> list[str]:
    """What a complete account would have to add; what that is, :func:`mdc.data.scenes.captions.compose` says."""
    claims, _ = read(caption)
    missing: list[Claim] = []
    for what, members in scene.kinds.items():
        if not any(isinstance(c, Number) and c.description == what and c.count == len(members) for c in claims):
            missing.append(Number(what, len(members), exact=True))
        stand = arrangement(members)
        if stand is not None and Arrangement(what, stand) not in claims:
            missing.append(Arrangement(what, stand))
    linked = components(scene, stated_links(scene, claims))
    missing += [Relation(a, name, b) for (a, b), name in scene.relations.items() if linked[a] != linked[b]]
    return [str(claim) for claim in missing]
