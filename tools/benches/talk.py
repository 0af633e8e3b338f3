"""Long texts of the demo's own world, for prompts that fill its context."""
import random
import subprocess

from benches.kit import BINARY, DEMO

NAMES = ("Anna", "Emma", "Finn", "Jack", "Leo", "Mira", "Sam", "Tim")
THINGS = ("lamp", "map", "kite", "drum", "ball", "ring", "coat", "book")
PLACES = ("attic", "cellar", "garden", "garage", "library", "kitchen", "hall", "bedroom")


def sentences(count, seed):
    dice = random.Random(seed)
    forms = (lambda: f"Nobody saw the {dice.choice(THINGS)} behind the {dice.choice(THINGS)}.",
             lambda: f"The {dice.choice(THINGS)} stood in the {dice.choice(PLACES)}.",
             lambda: f"The code of {dice.choice(NAMES)} is {dice.randrange(1000, 9999)}.",
             lambda: f"{dice.choice(NAMES)} walked from the {dice.choice(PLACES)} to the "
                     f"{dice.choice(PLACES)}.")
    return " ".join(dice.choice(forms)() for _ in range(count))


def ids_of(text, count):
    """The first so many ids of a text that has them."""
    out = subprocess.run([BINARY, "tokenize", DEMO], input=text, capture_output=True, text=True,
                         check=True)
    ids = [int(word) for word in out.stdout.split()]
    if len(ids) < count:
        raise RuntimeError(f"the text has {len(ids)} tokens, {count} are wanted")
    return ids[:count]
