"""Unit conversion by powers of ten: prices to cents, metres to centimetres, and the like."""

from tasks.common import Case, Split, number_split

NAME = "convert"

# (large unit, small unit, how many small ones a large one has)
UNITS = (("kilometres", "metres", 3), ("metres", "centimetres", 2), ("kilograms", "grams", 3),
         ("litres", "millilitres", 3), ("euros", "cents", 2), ("tonnes", "kilograms", 3),
         ("metres", "millimetres", 3), ("centimetres", "millimetres", 1))
WHOLES = number_split(1, 999)

ASKS = Split(
    ["{amount} {large} in {small}", "How many {small} are {amount} {large}?",
     "Convert {amount} {large} to {small}.", "What is {amount} {large} in {small}?",
     "{amount} {large} = ? {small}", "Give me {amount} {large} in {small}."],
    ["Express {amount} {large} in {small}.", "{amount} {large} are how many {small}?",
     "Change {amount} {large} into {small}."])


def case(rng, held_out: bool) -> Case:
    large, small, zeros = rng.choice(UNITS)
    tenths = 10 * WHOLES.pick(rng, held_out)
    if rng.random() < 0.5:
        tenths += rng.randint(1, 9)
    amount = f"{tenths / 10:g}"
    answer = f"{tenths * 10 ** (zeros - 1)} {small}"
    return Case(ASKS.pick(rng, held_out).format(amount=amount, large=large, small=small), answer)
