"""The schedule: which faults, where, when and for how long. It follows from the seed, the number of faults and the number of
tiers alone, so that a run can be had again."""
from collections import namedtuple

from harms import TABLE

Step = namedtuple("Step", "harm target pause_s last_s")  # pause_s: before it


def targets_of(harm, levels):
    tiers = [f"t{i}" for i in range(1, levels + 1)]
    if harm.targets == "tier":
        return tiers
    if harm.targets == "node":
        return tiers + ["m0", "c"]
    if harm.targets == "above":
        return ["m-t1"] + [f"t{i}-t{i + 1}" for i in range(1, levels)] + [f"{t}-c" for t in tiers] + ["t-c"]
    return [""]


class Deck:
    """Draws without putting back; when it is empty it is whole again. So everything comes before anything comes twice."""

    def __init__(self, rng, cards):
        self.rng, self.cards, self.left = rng, list(cards), []

    def draw(self):
        if not self.left:
            self.left = list(self.cards)
            self.rng.shuffle(self.left)
        return self.left.pop()


def draw(rng, n, levels, soak):
    harms = [h for h in TABLE if soak or h.short_s is not None]
    decks = {h.name: Deck(rng, targets_of(h, levels)) for h in harms}
    deck = Deck(rng, [h for h in harms for _ in range(h.share if soak else 1)])
    steps = []
    for _ in range(n):
        h = deck.draw()
        last = rng.uniform(*(h.long_s if soak else h.short_s))
        steps.append(Step(h, decks[h.name].draw(), rng.uniform(0.3, 2) if soak else rng.uniform(0.1, 0.4), last))
    return steps
